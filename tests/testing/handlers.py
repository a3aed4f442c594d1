"""Consumers for the tests of run_consumers."""

from __future__ import annotations

import functools
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from django_dbqueue.models import Message


class Trouble(Exception):
    """What a consumer raises."""


def succeed(_message: Message) -> None:
    pass


def fail(_message: Message) -> None:
    raise Trouble("as told")


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate as most do: the call is passed on, and what it returns too."""

    @functools.wraps(function)
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


@timed
def give_rows(_message: object) -> Iterator[int]:
    raise AssertionError("as nobody asks for a row, nothing has run")
    yield 1


@timed
async def give_rows_asynchronously(_message: object) -> AsyncIterator[int]:
    raise AssertionError("as nobody asks for a row, nothing has run")
    yield 1


def give_calls(message: object) -> Iterator[Any]:
    return itertools.chain(map(fail, [message]), [give_rows(message)])


async def give_coroutines(message: object) -> list[Any]:
    return [give_coroutines(message)]
