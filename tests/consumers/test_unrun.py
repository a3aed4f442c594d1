"""What a function returned instead of doing it is told from what has run."""

from __future__ import annotations

import asyncio
import csv
import sqlite3
import warnings
from collections import ChainMap, UserDict, UserList, UserString, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO, StringIO, TextIOWrapper
from itertools import accumulate, chain, count, cycle, filterfalse, islice, repeat, starmap, takewhile, tee
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from django.utils.functional import SimpleLazyObject

from django_dbqueue.consumers.unrun import refuse_unrun, unrun_text


def generate() -> Iterator[int]:
    yield 1


async def generate_asynchronously() -> AsyncIterator[int]:
    yield 1


async def work() -> None:
    pass


def begun() -> Iterator[int]:
    generator = generate()
    next(generator)
    return generator


class Awaitable:
    def __await__(self) -> Iterator[None]:
        yield


class Rows:
    """An iterator of the project's own."""

    def __iter__(self) -> Rows:
        return self

    def __next__(self) -> int:
        return 1


class RowsLater:
    def __aiter__(self) -> RowsLater:
        return self

    async def __anext__(self) -> int:
        return 1


@dataclass
class Report:
    rows: Any


@dataclass(frozen=True, slots=True)
class Small:
    rows: Any


PLACES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda value: value,
    "a list": lambda value: [1, value],
    "a tuple": lambda value: ("x", value),
    "a set": lambda value: {value},
    "a deque": lambda value: deque([value]),
    "a dict": lambda value: {"rows": value},
    "a key": lambda value: {value: 1},
    "a UserList": lambda value: UserList([value]),
    "a UserDict": lambda value: UserDict(rows=value),
    "a ChainMap": lambda value: ChainMap({}, {"rows": value}),
    "a read-only dict": lambda value: MappingProxyType({"rows": value}),
    "the values of a dict": lambda value: {"rows": value}.values(),
    "the items of a dict": lambda value: {"rows": value}.items(),
    "a dataclass": Report,
    "a dataclass with slots": Small,
    "deep in others": lambda value: [{"rows": ([], (Report(UserList([value])),))}],
}
UNRUN: dict[str, tuple[Callable[[], Any], str]] = {
    "generator": (generate, "a generator that nobody ran to its end"),
    "begun generator": (begun, "a generator that nobody ran to its end"),
    "async generator": (generate_asynchronously, "an async_generator that nobody ran to its end"),
    "coroutine": (work, "a coroutine that nobody awaited"),
    "awaitable": (Awaitable, "an Awaitable that nobody awaited"),
    "map": (lambda: map(print, "abc"), "a map that nobody ran to its end"),
    "filter": (lambda: filter(print, "abc"), "a filter that nobody ran to its end"),
    "starmap": (lambda: starmap(print, "abc"), "a starmap that nobody ran to its end"),
    "chain": (lambda: chain(generate()), "a chain that nobody ran to its end"),
    "islice": (lambda: islice(generate(), 3), "an islice that nobody ran to its end"),
    "takewhile": (lambda: takewhile(print, "abc"), "a takewhile that nobody ran to its end"),
    "filterfalse": (lambda: filterfalse(print, "abc"), "a filterfalse that nobody ran to its end"),
    "accumulate": (lambda: accumulate("abc", print), "an accumulate that nobody ran to its end"),
    "zip": (lambda: zip(generate(), "a", strict=False), "a zip that nobody ran to its end"),
    "enumerate": (lambda: enumerate(generate()), "an enumerate that nobody ran to its end"),
    "cycle": (lambda: cycle(generate()), "a cycle that nobody ran to its end"),
    "tee": (lambda: tee(generate())[0], "a _tee that nobody ran to its end"),
    "list iterator": (lambda: iter([generate()]), "a list_iterator that nobody ran to its end"),
    "call until": (lambda: iter(print, 1), "a callable_iterator that nobody ran to its end"),
    "reader": (lambda: csv.reader(map(str, "abc")), "a reader that nobody ran to its end"),
    "own iterator": (Rows, "a Rows that nobody ran to its end"),
    "own async iterator": (RowsLater, "a RowsLater that nobody ran to its end"),
    "context manager": (contextmanager(generate), "a _GeneratorContextManager that nobody ran to its end"),
    "async context manager": (
        asynccontextmanager(generate_asynchronously),
        "an _AsyncGeneratorContextManager that nobody ran to its end",
    ),
    "call in a thread": (Future, "a Future that nobody waited for"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", UNRUN)
def test_what_has_yet_to_run_is_refused_wherever_it_is(kind: str, place: str) -> None:
    make, text = UNRUN[kind]
    returned = PLACES[place](make())
    with warnings.catch_warnings(action="error"), pytest.raises(TypeError) as caught:  # a coroutine is not warned of
        refuse_unrun("shop.handle", returned)
    error = str(caught.value)
    assert error.startswith("shop.handle returned a")
    assert text.partition(" ")[2] in error
    assert "so its work was not done" in error


def test_the_sentence_names_what_it_is_in_and_what_to_do() -> None:
    assert unrun_text("shop.handle", [generate()]).startswith("shop.handle returned a list with a generator ")


@pytest.mark.parametrize("function", [generate, lambda: None, partial(print, 1), MagicMock().configure_mock])
def test_a_function_that_was_returned_was_not_called(function: Any) -> None:
    """As by a decorator that takes arguments and was written without parentheses."""
    assert "that nobody called" in (unrun_text("shop.handle", function) or "")


def test_what_has_run_is_no_failure() -> None:
    def explode() -> Any:
        raise AssertionError("it was evaluated")

    async def finished() -> list[Any]:
        task = asyncio.create_task(work())
        await task
        return [task, {task}]

    exhausted, closed, done = generate(), work(), Future[int]()
    assert list(exhausted) == [1]
    closed.close()
    done.set_result(1)
    endless: list[Any] = []
    endless.append(endless)
    doubled: Any = 0
    for _ in range(60):
        doubled = [doubled, doubled]
    context = {"function in a dict": print, "class": Awaitable}
    with closing(sqlite3.connect(":memory:")) as database:
        for value in (
            None, 1, "x", b"x", [], {}, (1, [2]), exhausted, [closed], done, asyncio.run(finished()), endless, doubled,
            context, SimpleNamespace(), MagicMock(), SimpleLazyObject(explode), Awaitable, StringIO(),
            TextIOWrapper(BytesIO()), database.cursor(), UserString("x"), range(2**62),
            Report([MagicMock()]), {1: 2}.values(), Report(count(1)), Report(partial(print)), repeat(0, 3),
        ):  # fmt: skip
            assert unrun_text("shop.handle", value) is None


def test_what_makes_its_parts_as_they_are_read_is_not_evaluated() -> None:
    class Page(Sequence[Any]):
        def __len__(self) -> int:
            raise AssertionError("it was evaluated")

        def __getitem__(self, index: Any) -> Any:
            raise AssertionError("it was evaluated")

    class Endless(UserList[Any]):
        def __iter__(self) -> Iterator[int]:
            return count()

    for value in (Page(), Endless(), [Page(), Endless()]):
        assert unrun_text("shop.handle", value) is None
    assert "with a generator" in (unrun_text("shop.handle", [Page(), Endless(), generate()]) or "")


def test_a_container_that_fails_when_it_is_read_is_no_failure_of_what_returned_it() -> None:
    class Reading(list[int]):
        def __iter__(self) -> Iterator[int]:
            raise RuntimeError("as told")

    class Empty(UserList[int]):
        def __init__(self) -> None:
            """Make one without what others have."""

    class Failing(UserDict[str, int]):
        @property
        def data(self) -> dict[str, int]:  # type: ignore[override]
            raise RuntimeError("as told")

        @data.setter
        def data(self, value: object) -> None:
            """Keep nothing."""

    for value in (Reading([1]), Empty(), Failing()):
        refuse_unrun("it", value)
    with pytest.raises(TypeError, match="a Reading with a generator"):
        refuse_unrun("it", Reading([generate()]))  # type: ignore[list-item]


def test_a_deep_value_is_searched() -> None:
    deep: Any = generate()
    for _ in range(100_000):
        deep = [deep]
    assert "a list with a generator" in (unrun_text("shop.handle", deep) or "")
