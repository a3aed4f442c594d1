"""Consumers that run until somebody cancels them, and note how they end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from django_dbqueue import consumer
from django_dbqueue.models import Message, Queue
from tests.consumers_app.noting import note


def _spin(_message: Message) -> None:
    while True:
        time.sleep(0.01)


def _pass_by_exceptions(message: Message) -> None:
    """Let nothing stop it that is an Exception."""
    while True:
        with contextlib.suppress(Exception):
            _spin(message)


def _swallow(message: Message) -> None:
    while True:
        try:
            _spin(message)
        except BaseException:
            note("swallowed", message)


def _hang(_message: Message) -> None:
    time.sleep(100_000)  # one call of C, in which nothing can be raised


def _ask(message: Message) -> None:
    while True:
        time.sleep(0.01)
        message.remaining()


def _step(message: Message) -> None:
    message.step("first", lambda: 1)
    while not message.lease_lost:
        time.sleep(0.01)
    message.begin_run()
    message.step("first", lambda: 2)  # remembered, so nothing would ask the database for the claim


def _return_when_lost(message: Message) -> None:
    while not message.lease_lost:
        time.sleep(0.01)


def _write(message: Message) -> None:
    Queue.objects.create(name=f"effect-{message.pk}")
    note("written", message)
    _spin(message)


def _until(message: Message) -> None:
    while not Path(message.payload["file"]).exists():
        time.sleep(0.01)


def _note_deadline(message: Message) -> None:
    deadline, now = message.deadline, datetime.now(UTC)
    until = None if deadline is None else (deadline - now).total_seconds()
    note("deadline", message, remaining=message.remaining(), until=until)


DEEDS: dict[str, Callable[[Message], None]] = {
    "spin": _spin, "pass by": _pass_by_exceptions, "swallow": _swallow, "hang": _hang, "ask": _ask, "step": _step,
    "return": _return_when_lost, "write": _write, "until": _until, "deadline": _note_deadline,
}  # fmt: skip


@contextlib.contextmanager
def _noting(message: Message) -> Iterator[None]:
    note("begin", message)
    try:
        yield
    except BaseException as error:
        note("raised", message, kind=type(error).__name__, text=str(error), why=message.cancelled)
        raise
    note("end", message)


@consumer("cancelled", max_reads=3)
@consumer("cancelled-timed", max_reads=3, timeout=600)
@consumer("cancelled-unbearing", max_reads=3, interruptible=False)
@consumer("cancelled-transactional", max_reads=3, transactional=True)
def run_until_cancelled(message: Message) -> None:
    with _noting(message):
        DEEDS[message.payload["do"]](message)


@consumer("cancelled-list", max_reads=3, batch=2, batch_wait=60)
@consumer("cancelled-list-transactional", max_reads=3, batch=2, batch_wait=60, transactional=True)
def run_list_until_cancelled(messages: list[Message]) -> None:
    with contextlib.ExitStack() as stack:
        for each in messages:
            stack.enter_context(_noting(each))
        DEEDS[messages[0].payload["do"]](messages[0])


@consumer("cancelled-async", max_reads=3)
async def wait_until_cancelled(message: Message) -> None:
    with _noting(message):
        await asyncio.sleep(100_000)
