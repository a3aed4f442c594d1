"""What a message can tell a handler to do: {"do": "sleep", "seconds": 3}, {"do": "die"}, ..."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db import connection

from django_dbqueue import Reject, Retry
from django_dbqueue.models import Message, Queue
from tests.consumers_app import hostile, leaving, settling
from tests.consumers_app.noting import note, notes, until

if TYPE_CHECKING:
    from collections.abc import Callable


def _ok(message: Message, _what: dict[str, Any]) -> None:
    note("ok", message, turn=sys.getswitchinterval())


def _starve(message: Message, what: dict[str, Any]) -> None:
    starve(what["bytes"])
    note("starved", message)


def starve(share: int) -> None:
    """Limit this process to this many bytes of memory beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + share
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


_leaked: list[bytes] = []


def _leak(_message: Message, what: dict[str, Any]) -> None:
    leak(what["bytes"])
    time.sleep(what["seconds"])


def leak(size: int) -> None:
    """Keep this many bytes more, all of them written."""
    _leaked.append(b"x" * size)


def _all_of(message: Message, what: dict[str, Any]) -> None:
    for deed in what["deeds"]:
        DEEDS[deed["do"]](message, deed)


def _sleep(message: Message, what: dict[str, Any]) -> None:
    time.sleep(what["seconds"])


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
        while not any(line["step"] == "asked" for line in notes()):
            time.sleep(0.01)
        process.terminate()
    if what.get("waits", True):
        process.join()
        note("waited", message, status=process.exitcode)
        Queue.objects.create(name=f"effect-{message.pk}-{message.read_count}")


def _print(_message: Message, what: dict[str, Any]) -> None:
    print(what["text"] * 10_000, flush=True)


def _stop(_message: Message, _what: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _leave_thread(_message: Message, what: dict[str, Any]) -> None:
    threading.Thread(target=time.sleep, args=(what["seconds"],), name="left-running", daemon=False).start()


def _fail(message: Message, what: dict[str, Any]) -> None:
    if message.read_count <= what.get("times", 1_000_000):
        raise ValueError(what.get("text", "as told"))


def _retry(message: Message, what: dict[str, Any]) -> None:
    if message.read_count == 1:
        raise Retry(after=what["after"])


def _reject(_message: Message, _what: dict[str, Any]) -> None:
    raise Reject("not wanted")


def _exit(_message: Message, _what: dict[str, Any]) -> None:
    raise SystemExit(3)


def _effect(message: Message, what: dict[str, Any]) -> None:
    """Write a row, and then do what else is told."""
    Queue.objects.create(name=f"effect-{message.pk}-{message.read_count}")
    then = what.get("then", {"do": "ok"})
    DEEDS[then["do"]](message, then)


def _session(message: Message, _what: dict[str, Any]) -> None:
    connection.ensure_connection()
    note("session", message, session=id(connection.connection))


def _enqueue(_message: Message, what: dict[str, Any]) -> None:
    Message.objects.enqueue(what["payload"], queue=what["to"])


DEEDS: dict[str, Callable[[Message, dict[str, Any]], None]] = {
    **hostile.DEEDS,
    **settling.DEEDS,
    **leaving.DEEDS,
    "ok": _ok,
    "starve": _starve,
    "leak": _leak,
    "all of": _all_of,
    "sleep": _sleep,
    "until": until,
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
    "effect": _effect,
    "enqueue": _enqueue,
    "session": _session,
}
