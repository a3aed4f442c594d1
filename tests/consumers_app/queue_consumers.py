"""Consumers that do what a message tells them to: its ``deeds``. Each step is a line in a log file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async

from django_dbqueue import consumer
from django_dbqueue.models import Message, Queue
from tests.consumers_app import async_consumers as async_consumers  # registers more of them
from tests.consumers_app import batch_consumers as batch_consumers
from tests.consumers_app import cancel_consumers as cancel_consumers
from tests.consumers_app import flow_consumers as flow_consumers
from tests.consumers_app import group_consumers as group_consumers
from tests.consumers_app import step_consumers as step_consumers
from tests.consumers_app import stuck_consumers as stuck_consumers
from tests.consumers_app.deeds import DEEDS, leak, starve
from tests.consumers_app.noting import note, until
from tests.testing.handlers import timed

if "DBQUEUE_TEST_MEMORY" in os.environ:  # in the child, so that what was imported until then is no part of its share
    os.register_at_fork(after_in_child=partial(starve, int(os.environ["DBQUEUE_TEST_MEMORY"])))
if "DBQUEUE_TEST_BALLAST" in os.environ:
    os.register_at_fork(after_in_child=partial(leak, int(os.environ["DBQUEUE_TEST_BALLAST"])))


@consumer("test", max_reads=3, backoff=0.05, backoff_max=0.2)
@consumer("transactional", transactional=True, max_reads=3, backoff=0.05, backoff_max=0.2)
@consumer("transactional-short-lease", transactional=True, lease=2, max_reads=3)
@consumer("transactional-timed", transactional=True, timeout=0.5, max_reads=2, backoff=0.05, backoff_max=0.2)
@consumer("second", max_reads=3)
@consumer("third", max_reads=3)
@consumer("short-lease", lease=2, max_reads=5, backoff=0.05, backoff_max=0.2)
@consumer("timed", timeout=0.5, max_reads=2, backoff=0.05, backoff_max=0.2)
# For what has to end in time, on a busy machine too; on "timed" nothing does.
@consumer("generously-timed", timeout=2, max_reads=2, backoff=0.05, backoff_max=0.2)
def do_as_ordered(message: Message) -> None:
    what = message.payload
    note("begin", message)
    DEEDS[what["do"]](message, what)
    note("end", message, lost=message.lease_lost)


@consumer("async", max_reads=2, backoff=0.05, backoff_max=0.2)
async def do_asynchronously(message: Message) -> None:
    note("begin", message)
    await asyncio.sleep(message.payload["seconds"])
    assert await Message.objects.filter(pk=message.pk).aexists()
    note("end", message)


@consumer("async-timed", timeout=0.5, max_reads=2, backoff=0.05, backoff_max=0.2)
async def do_asynchronously_in_time(message: Message) -> None:
    await do_asynchronously(message)


@consumer("async-crowd")
async def ask_in_a_crowd(message: Message) -> None:
    def ask() -> None:
        assert Message.objects.filter(pk=message.pk).exists()

    def ask_and_wait() -> None:
        ask()
        until(message, message.payload)
        ask()

    await asyncio.gather(*(sync_to_async(ask, thread_sensitive=False)() for _ in range(message.payload["queries"])))
    note("asked", message)
    if "cancelled" in message.payload:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(ask_and_wait), 0.05)
        return
    while not Path(message.payload["file"]).exists():
        await asyncio.sleep(0.01)


async def _never_awaited(message: Message) -> None:
    note("ran", message)


@consumer("unawaited", max_reads=1)
def forget_to_await(message: Message) -> Any:
    return _never_awaited(message)


@consumer("unawaited-transactional", max_reads=1, transactional=True)
def forget_to_await_in_a_transaction(message: Message) -> Any:
    Queue.objects.create(name=f"effect-{message.pk}")
    return _never_awaited(message)


@consumer("unawaited-async", max_reads=1)
async def forget_to_await_asynchronously(message: Message) -> Any:
    return _never_awaited(message)


@consumer("unrun", max_reads=1)
@timed
def give_rows(message: Message) -> Iterator[Any]:
    note("ran", message)
    yield message.payload


@consumer("unrun-async", max_reads=1)
async def give_rows_asynchronously(message: Message) -> Any:
    return [give_rows(message)]


@consumer("unrun-batch", max_reads=1, batch=2, transactional=True)
@timed
async def give_rows_of_many(messages: list[Message]) -> AsyncIterator[Any]:
    note("ran", messages[0])
    yield messages
