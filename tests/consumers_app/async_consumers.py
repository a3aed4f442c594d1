"""What a message says is done by a coroutine. Each step is a line in the log file, as of the other consumers."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import transaction

from django_dbqueue import Retry, consumer
from django_dbqueue.models import Message, Queue
from tests.consumers_app.noting import note

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

_seen: ContextVar[str] = ContextVar("seen", default="nothing")
_begun: set[int] = set()


async def _until(_message: Message, what: dict[str, Any]) -> None:
    """Run until the test makes a file."""
    while not Path(what["file"]).exists():
        await asyncio.sleep(0.01)


async def _gather(message: Message, what: dict[str, Any]) -> None:
    """Run until so many messages run here at once."""
    _begun.add(message.pk)
    while len(_begun) < what["count"]:
        await asyncio.sleep(0.01)


async def _wait(message: Message, _what: dict[str, Any]) -> None:
    """Wait for something that never comes, and clean up when it is cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.01)
        note("cleaned up", message)


async def _swallow(message: Message, _what: dict[str, Any]) -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            note("swallowed", message)


async def _block(_message: Message, what: dict[str, Any]) -> None:
    time.sleep(what["seconds"])


async def _settle(message: Message, what: dict[str, Any]) -> None:
    await getattr(message, what["verb"])(**what.get("with", {}))
    await message.arefresh_from_db(fields=["read_count"])  # for the note; a coroutine must not read it lazily


async def _extend_and_wait(message: Message, what: dict[str, Any]) -> None:
    await message.aextend(what["seconds"])
    await message.arefresh_from_db(fields=["read_count"])
    note("extended", message)
    await _until(message, what)


async def _context(message: Message, _what: dict[str, Any]) -> None:
    note("saw", message, value=_seen.get())
    _seen.set(f"what message {message.pk} set")
    await asyncio.sleep(0)
    note("kept", message, value=_seen.get())


async def _query(message: Message, _what: dict[str, Any]) -> None:
    assert await Message.objects.filter(pk=message.pk).aexists()
    await Queue.objects.acreate(name=f"effect-{message.pk}-{message.read_count}")
    note("queried", message)


def _leave_open() -> None:
    transaction.atomic().__enter__()
    Queue.objects.create(name="left-open")


async def _open_transaction(message: Message, what: dict[str, Any]) -> None:
    await (asyncio.to_thread(_leave_open) if what["in"] == "thread" else sync_to_async(_leave_open)())


async def _die(_message: Message, _what: dict[str, Any]) -> None:
    os.kill(os.getpid(), 9)


async def _fail(_message: Message, what: dict[str, Any]) -> None:
    raise ValueError("as told")


async def _retry(message: Message, _what: dict[str, Any]) -> None:
    if message.read_count == 1:
        raise Retry(after=0)


async def _exit_in_a_task(_message: Message, _what: dict[str, Any]) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    await asyncio.gather(leave())


async def _in_thread(message: Message, what: dict[str, Any]) -> None:
    """Be cancelled while a thread works for it."""

    def work() -> None:
        while not Path(what["file"]).exists():
            time.sleep(0.01)
        Queue.objects.create(name=f"effect-{message.pk}-{message.read_count}")
        note("worked", message)

    note("in thread", message)
    await asyncio.to_thread(work)


_waiting: list[asyncio.Future[None]] = []
"""What others wait for that are to be ready, and no more, when somebody forks."""


async def _fork(message: Message, what: dict[str, Any]) -> None:
    """Let those go on that wait for it, and fork by hand before they do; the copy yields, waits, or returns."""
    while len(_waiting) < what["others"]:
        await asyncio.sleep(0.001)
    for future in _waiting:
        future.set_result(None)
    if pid := os.fork():
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        note("waited", message, status=os.waitstatus_to_exitcode(status))
        return
    if what["then"] != "return":
        await asyncio.sleep(0.01 if what["then"] == "wait" else 0)
        note("copy went on", message)


async def _wait_for_the_fork(_message: Message, _what: dict[str, Any]) -> None:
    _waiting.append(asyncio.get_running_loop().create_future())
    await _waiting[-1]


async def _ok(_message: Message, _what: dict[str, Any]) -> None:
    return


_DEEDS: dict[str, Callable[[Message, dict[str, Any]], Coroutine[Any, Any, None]]] = {
    "ok": _ok,
    "until": _until,
    "gather": _gather,
    "wait": _wait,
    "swallow": _swallow,
    "block": _block,
    "settle": _settle,
    "extend and wait": _extend_and_wait,
    "context": _context,
    "query": _query,
    "open transaction": _open_transaction,
    "die": _die,
    "fail": _fail,
    "retry": _retry,
    "exit in a task": _exit_in_a_task,
    "in thread": _in_thread,
    "fork": _fork,
    "wait for the fork": _wait_for_the_fork,
}


@consumer("coroutines", max_reads=3, backoff=0.05, backoff_max=0.2)
@consumer("coroutines-timed", timeout=0.5, lease=3, max_reads=2, backoff=0.05, backoff_max=0.2)
@consumer("coroutines-generously-timed", timeout=2, max_reads=2, backoff=0.05, backoff_max=0.2)
@consumer("coroutines-short-lease", lease=2, max_reads=3, backoff=0.05, backoff_max=0.2)
async def do_as_ordered(message: Message) -> None:
    what: Any = message.payload
    note("begin", message, thread=threading.get_ident())
    await _DEEDS[what["do"]](message, what)
    note("end", message)


@asynccontextmanager
async def shared() -> AsyncIterator[object]:
    """What consumers share, if the test lets it be entered; it leaves a line in the log each time."""
    if "DBQUEUE_TEST_LOG" not in os.environ:  # a worker that consumes what other tests send
        yield object()
        return
    no_message = Message(id=0)
    if (gate := os.environ.get("DBQUEUE_TEST_RESOURCE")) and not Path(gate).exists():
        note("refused", no_message)
        raise ConnectionError("the other side is away")
    note("entered", no_message)
    try:
        yield object()
    finally:
        await asyncio.sleep(0.01)
        note("left", no_message)


@consumer("sharing", resource=shared, max_reads=1)
async def use_what_is_shared(message: Message, thing: object) -> None:
    note("used", message, thing=id(thing))


@consumer("sharing-too", resource=shared, max_reads=1)
async def use_it_too(message: Message, thing: object) -> None:
    await use_what_is_shared(message, thing)
