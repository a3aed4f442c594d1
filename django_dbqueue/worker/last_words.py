"""What a process has logged, printed and traced and not yet written: ``os._exit`` would discard it."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from django_dbqueue import hooks
from django_dbqueue.worker.mailing import MailingHandler

_all_handlers: Final[list[Any]] = vars(logging)["_handlerList"]  # what logging.shutdown() goes through
WITHIN: Final = 2.0
"""Seconds: the process ends, or forks, all the same if a handler, or standard output's reader, hangs."""


def flush() -> None:
    """Write all of it within ``WITHIN`` seconds; raise nothing. Not for signal handlers: Thread.start() takes locks."""
    _within(_flush)


def write_out() -> None:
    """Write what handlers and standard output hold, likewise, before a fork: the copy would write it once more."""
    _within(_write_out)


def _within(work: Callable[[], None]) -> None:
    with suppress(RuntimeError, MemoryError):  # no thread can be started: whatever hangs would hang this one
        writer = threading.Thread(target=work, name="dbqueue-last-words", daemon=True)
        writer.start()
        writer.join(WITHIN)


def _handlers() -> list[Any]:
    return [reference() for reference in reversed(_all_handlers)]  # newest first, as at shutdown


def _flush() -> None:
    for handler in _handlers():
        if (listener := getattr(handler, "listener", None)) is not None:  # a QueueHandler's, from Python 3.12 on
            with suppress(Exception):
                _end(listener)
    _write_out(hooks)


def _write_out(*others: Any) -> None:
    """Flush all, and mails last: other handlers bring more of them, and a mail server that hangs takes all the time."""
    handlers = _handlers()
    mails = [each for each in handlers if isinstance(each, MailingHandler)]
    for each in (*(each for each in handlers if each not in mails), sys.stdout, sys.stderr, *others, *mails):
        with suppress(Exception):
            each.flush()


def _end(listener: Any) -> None:
    """Have a listener write what is in its queue; the one of another process, which forked this one, continues."""
    waiting: Any = listener.queue
    if listener._thread is not None and listener._thread.is_alive():
        listener.stop()
    elif isinstance(waiting, queue.Queue | queue.SimpleQueue):  # nobody reads this copy of it
        with suppress(queue.Empty):
            while True:
                listener.handle(waiting.get_nowait())
    else:  # multiprocessing's: a thread of this process hands its records on
        waiting.close()
        waiting.join_thread()
