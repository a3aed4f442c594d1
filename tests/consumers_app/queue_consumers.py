"""What a message says is done: {"do": "sleep", "seconds": 3}, {"do": "die"}, ... Each step is a line in a log file."""

from __future__ import annotations

import asyncio
import ctypes
import json
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import OperationalError, connection, transaction

from django_dbqueue import Reject, Retry, consumer
from django_dbqueue.models import Message, Queue
from tests.consumers_app import hostile

if TYPE_CHECKING:
    from collections.abc import Callable


if "DBQUEUE_TEST_MEMORY" in os.environ:  # imported before the worker forks, so that its children have no more either
    resource.setrlimit(resource.RLIMIT_AS, (int(os.environ["DBQUEUE_TEST_MEMORY"]),) * 2)


def note(step: str, message: Message, **more: Any) -> None:
    """Append one line; a single write of O_APPEND is not torn by other processes."""
    line = {"step": step, "id": message.pk, "reads": message.read_count, "pid": os.getpid(), **more}
    file = os.open(os.environ["DBQUEUE_TEST_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)


def _ok(message: Message, _what: dict[str, Any]) -> None:
    note("ok", message, turn=sys.getswitchinterval())


def _starve(message: Message, what: dict[str, Any]) -> None:
    """Limit this process to this many bytes of memory beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + what["bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    note("starved", message)


def _sleep(message: Message, what: dict[str, Any]) -> None:
    time.sleep(what["seconds"])


def _until(message: Message, what: dict[str, Any]) -> None:
    """Run until the test makes a file."""
    while not Path(what["file"]).exists():
        time.sleep(0.01)


def _hog(_message: Message, what: dict[str, Any]) -> None:
    """Keep the interpreter's lock, so that no other thread of the process runs."""
    ctypes.PyDLL(None).usleep(int(what["seconds"] * 1_000_000))


def _die(_message: Message, _what: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _leave(_message: Message, _what: dict[str, Any]) -> None:
    os._exit(0)


def _close_all(_message: Message, what: dict[str, Any]) -> None:
    """Close every descriptor but the three that all programs have, as daemons are made by the book."""
    os.closerange(3, 65_536)
    time.sleep(what["seconds"])


def _fork(message: Message, what: dict[str, Any]) -> None:
    """Fork by hand; the copy writes down its number, does as told and ends as told; this one may wait for it."""
    connection.ensure_connection()
    if pid := os.fork():
        if what.get("waits", True):
            _, status = os.waitpid(pid, 0)
            note("waited", message, status=os.waitstatus_to_exitcode(status))
            Queue.objects.create(name=f"effect-{message.pk}-{message.read_count}")
        return
    note("forked", message)
    time.sleep(what.get("seconds", 0))
    if what["then"] == "query":
        note("asked", message, found=Message.objects.filter(pk=message.pk).count())
    if what["then"] == "return":
        return
    if what["then"] == "exit":
        sys.exit(0)
    os._exit(0)


def _in_process(message: Message, seconds: float) -> None:
    note("forked", message)
    note("asked", message, found=Message.objects.filter(pk=message.pk).count())
    time.sleep(seconds)


def _multiprocess(message: Message, what: dict[str, Any]) -> None:
    connection.ensure_connection()
    process = multiprocessing.get_context("fork").Process(target=_in_process, args=(message, what["seconds"]))
    process.start()
    if what.get("terminates"):
        while not any(line["step"] == "asked" for line in _notes()):
            time.sleep(0.01)
        process.terminate()
    if what.get("waits", True):
        process.join()
        note("waited", message, status=process.exitcode)
        Queue.objects.create(name=f"effect-{message.pk}-{message.read_count}")


def _notes() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(os.environ["DBQUEUE_TEST_LOG"]).read_text().splitlines()]


def _print(_message: Message, what: dict[str, Any]) -> None:
    print(what["say"] * 10_000, flush=True)


def _stop(_message: Message, _what: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _leave_thread(_message: Message, what: dict[str, Any]) -> None:
    threading.Thread(target=time.sleep, args=(what["seconds"],), name="left-running", daemon=False).start()


def _fail(message: Message, what: dict[str, Any]) -> None:
    if message.read_count <= what.get("times", 1_000_000):
        raise ValueError(what.get("say", "as told"))


def _retry(message: Message, what: dict[str, Any]) -> None:
    if message.read_count == 1:
        raise Retry(after=what["after"])


def _reject(_message: Message, _what: dict[str, Any]) -> None:
    raise Reject("not wanted")


def _exit(_message: Message, _what: dict[str, Any]) -> None:
    raise SystemExit(3)


def _ack_in_transaction(message: Message, _what: dict[str, Any]) -> None:
    with transaction.atomic():
        Queue.objects.create(name=f"effect-{message.pk}")
        message.ack()


def _ack_and_roll_back(message: Message, _what: dict[str, Any]) -> None:
    with transaction.atomic():
        message.ack()
        transaction.set_rollback(True)


def _exactly_once(message: Message, what: dict[str, Any]) -> None:
    with message.transaction():
        Queue.objects.create(name=f"effect-{message.pk}")
        if message.read_count <= what.get("fail_times", 0):
            raise ValueError("after the effect")


def _effect(message: Message, what: dict[str, Any]) -> None:
    """Write a row, and then do what else is told."""
    Queue.objects.create(name=f"effect-{message.pk}-{message.read_count}")
    then = what.get("then", {"do": "ok"})
    _DEEDS[then["do"]](message, then)


def _settle(message: Message, what: dict[str, Any]) -> None:
    getattr(message, what["verb"])()


def _settle_twice(message: Message, what: dict[str, Any]) -> None:
    getattr(message, what["verb"])()
    getattr(message, what["verb"])()


def _extend_and_wait(message: Message, what: dict[str, Any]) -> None:
    """Lock the message's own row, and then wait for a row that somebody else has locked."""
    message.extend(600)
    note("extended", message)
    Queue.objects.filter(name=what["name"]).update(paused_by=str(message.pk))


def _extend_and_sleep(message: Message, what: dict[str, Any]) -> None:
    message.extend()
    _sleep(message, what)


def _lock_in_turn(message: Message, what: dict[str, Any]) -> None:
    first, second = what["names"]
    Queue.objects.filter(name=first).update(paused_by=str(message.pk))
    note("locked", message)
    _until(message, what)
    Queue.objects.filter(name=second).update(paused_by=str(message.pk))


def _hook_that_fails(_message: Message, what: dict[str, Any]) -> None:
    def hook() -> None:
        if what.get("deadlock"):
            raise OperationalError("deadlock") from Exception(1213)
        raise ValueError("after the commit")

    transaction.on_commit(hook)


def _break_connection(_message: Message, what: dict[str, Any]) -> None:
    """Leave the thread's connection in every bad state that a handler can."""
    if what["how"] == "autocommit off":
        transaction.set_autocommit(False)
        Queue.objects.create(name="left-open")
    elif what["how"] == "open atomic":
        transaction.atomic().__enter__()
        Queue.objects.create(name="left-open")
    elif what["how"] == "begun by SQL":
        with connection.cursor() as cursor:
            cursor.execute("SET autocommit = 0" if connection.vendor == "mysql" else "BEGIN")
        Queue.objects.create(name="left-open")
    elif what["how"] == "begun by BEGIN":
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
        Queue.objects.create(name="left-open")
    elif what["how"] == "begun by the driver":
        connection.ensure_connection()
        cursor = connection.connection.cursor()
        cursor.execute("BEGIN")
        cursor.close()
        Queue.objects.create(name="left-open")
    elif what["how"] == "tables locked":
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLES django_dbqueue_queue WRITE" if connection.vendor == "mysql" else "BEGIN")
    elif what["how"] == "closed":
        connection.ensure_connection()
        connection.connection.close()


def _session(message: Message, _what: dict[str, Any]) -> None:
    connection.ensure_connection()
    note("session", message, session=id(connection.connection))


def _enqueue(_message: Message, what: dict[str, Any]) -> None:
    Message.objects.enqueue(what["payload"], queue=what["to"])


_DEEDS: dict[str, Callable[[Message, dict[str, Any]], None]] = hostile.DEEDS | {
    "ok": _ok,
    "starve": _starve,
    "sleep": _sleep,
    "until": _until,
    "hog": _hog,
    "die": _die,
    "leave": _leave,
    "close all": _close_all,
    "print": _print,
    "fork": _fork,
    "multiprocess": _multiprocess,
    "stop": _stop,
    "leave thread": _leave_thread,
    "fail": _fail,
    "retry": _retry,
    "reject": _reject,
    "exit": _exit,
    "ack in transaction": _ack_in_transaction,
    "ack and roll back": _ack_and_roll_back,
    "exactly once": _exactly_once,
    "break connection": _break_connection,
    "effect": _effect,
    "settle": _settle,
    "settle twice": _settle_twice,
    "extend and wait": _extend_and_wait,
    "extend and sleep": _extend_and_sleep,
    "lock in turn": _lock_in_turn,
    "hook that fails": _hook_that_fails,
    "enqueue": _enqueue,
    "session": _session,
}


@consumer("test", max_reads=3, backoff=0.05, backoff_max=0.2)
def do_as_told(message: Message) -> None:
    what = message.payload
    note("begin", message)
    _DEEDS[what["do"]](message, what)
    note("end", message, lost=message.lease_lost)


@consumer("transactional", transactional=True, max_reads=3, backoff=0.05, backoff_max=0.2)
def do_in_a_transaction(message: Message) -> None:
    do_as_told(message)


@consumer("transactional-short-lease", transactional=True, lease=2, max_reads=3)
def do_in_a_transaction_on_a_short_lease(message: Message) -> None:
    do_as_told(message)


@consumer("transactional-timed", transactional=True, timeout=0.5, max_reads=2, backoff=0.05, backoff_max=0.2)
def do_in_a_transaction_in_time(message: Message) -> None:
    do_as_told(message)


@consumer("second", max_reads=3)
def do_as_told_beside(message: Message) -> None:
    do_as_told(message)


@consumer("third", max_reads=3)
def do_as_told_as_well(message: Message) -> None:
    do_as_told(message)


@consumer("short-lease", lease=2, max_reads=5, backoff=0.05, backoff_max=0.2)
def do_on_a_short_lease(message: Message) -> None:
    do_as_told(message)


@consumer("timed", timeout=0.5, max_reads=2, backoff=0.05, backoff_max=0.2)
def do_in_time(message: Message) -> None:
    do_as_told(message)


@consumer("async", timeout=1, max_reads=2, backoff=0.05, backoff_max=0.2)
async def do_asynchronously(message: Message) -> None:
    note("begin", message)
    await asyncio.sleep(message.payload["seconds"])
    assert await Message.objects.filter(pk=message.pk).aexists()
    note("end", message)


@consumer("async-crowd")
async def ask_in_a_crowd(message: Message) -> None:
    def ask() -> None:
        assert Message.objects.filter(pk=message.pk).exists()

    def ask_and_wait() -> None:
        ask()
        _until(message, message.payload)
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
