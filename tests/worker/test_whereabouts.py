"""Where a coroutine is: at what it awaits, and what that awaits; also while a thread runs it."""

from __future__ import annotations

import asyncio
import threading
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any

import pytest

from django_dbqueue.worker.lent_threads import in_own_loop
from django_dbqueue.worker.whereabouts import as_text, frames_of, place_of
from tests.patience import patience
from tests.worker.test_interruption import Aside, delivery

pytestmark = pytest.mark.once


@types.coroutine
def by_hand(what: Awaitable[object]) -> Generator[Any, None, None]:
    yield from what  # type: ignore[misc]


async def deepest(gate: asyncio.Event) -> None:
    await gate.wait()


async def in_between(gate: asyncio.Event) -> None:
    await by_hand(deepest(gate))


async def through_a_task(gate: asyncio.Event) -> None:
    await asyncio.create_task(in_between(gate))


async def read_on(gate: asyncio.Event) -> AsyncIterator[int]:
    await gate.wait()
    yield 1


async def by_a_generator(gate: asyncio.Event) -> None:
    async for _ in read_on(gate):
        pass


def functions(stack: str) -> list[str]:
    return [line.rsplit(" in ", 1)[1] for line in stack.splitlines() if ", line " in line]


def stack_while_it_waits(handle: Callable[[asyncio.Event], Any]) -> list[str]:
    async def read_stack() -> str:
        gate = asyncio.Event()
        task = asyncio.create_task(handle(gate))
        for _ in range(5):  # each task begins in the next turn of the loop
            await asyncio.sleep(0)
        stack = as_text(frames_of(None, task))
        gate.set()
        await task
        assert frames_of(None, task) == []
        return stack

    return functions(asyncio.run(read_stack()))


def test_each_coroutine_is_shown_that_the_one_before_it_awaits() -> None:
    assert stack_while_it_waits(in_between) == ["in_between", "by_hand", "deepest", "wait"]


def test_behind_a_task_that_is_awaited_it_goes_on() -> None:
    expected = ["through_a_task", "in_between", "by_hand", "deepest", "wait"]
    assert stack_while_it_waits(through_a_task) == expected


def test_it_ends_at_the_line_that_awaits_what_shows_no_frame() -> None:
    assert stack_while_it_waits(by_a_generator) == ["by_a_generator"]


def test_two_that_wait_for_one_another_are_shown_once() -> None:
    tasks: list[Any] = []

    async def first() -> None:
        await tasks[1]

    async def second() -> None:
        await tasks[0]

    async def read_stack() -> str:
        tasks.extend((asyncio.create_task(first()), asyncio.create_task(second())))
        await asyncio.sleep(0)
        return as_text(frames_of(None, tasks[0]))

    loop = asyncio.new_event_loop()
    stack = loop.run_until_complete(read_stack())
    for task in tasks:  # such tasks never end, and can't be cancelled
        task._log_destroy_pending = False
        task.get_coro().close()
    loop.close()
    assert functions(stack) == ["first", "second"]


def test_one_that_blocks_its_loop_is_shown_with_what_it_calls() -> None:
    began, may_end, tasks = threading.Event(), threading.Event(), list[asyncio.Task[Any]]()

    def block() -> None:
        began.set()
        may_end.wait(patience(60))

    async def call() -> None:
        block()

    async def handle() -> None:
        tasks.append(asyncio.current_task())  # type: ignore[arg-type]
        await call()

    thread = threading.Thread(target=asyncio.run, args=(handle(),))
    thread.start()
    assert began.wait(patience(60))
    assert functions(as_text(frames_of(None, tasks[0])))[:4] == ["handle", "call", "block", "wait"]
    may_end.set()
    thread.join(patience(60))
    assert place_of(frames_of(None, tasks[0])) == "an unknown place"


def test_of_one_in_a_loop_of_its_own_the_stack_is_its_own_not_that_of_the_waiting_thread() -> None:
    one, began, may_end = delivery(), threading.Event(), threading.Event()
    one.over_at, one.options.timeout, one.timed_out = None, None, False

    async def wait() -> None:
        began.set()
        while not may_end.is_set():
            await asyncio.sleep(0.001)

    thread = Aside([one], lambda: in_own_loop(one, wait))
    assert began.wait(patience(60))
    found = functions(as_text(one.call.frames))
    may_end.set()
    thread.join()
    assert "wait" in found
    assert "run_until_future" not in found
