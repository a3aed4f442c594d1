"""What a process has logged, printed and traced and not yet written: ``os._exit`` would discard it."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from typing import Any, Final

from django_dbqueue import hooks

_all_handlers: Final[list[Any]] = vars(logging)["_handlerList"]  # what logging.shutdown() goes through
WITHIN: Final = 2.0
"""Seconds: the process ends all the same if a handler, or standard output's reader, hangs."""


def flush() -> None:
    """Write all of it within ``WITHIN`` seconds; raise nothing. Not for signal handlers: Thread.start() takes locks."""
    with suppress(RuntimeError, MemoryError):  # no thread can be started: whatever hangs would hang this one
        writer = threading.Thread(target=_flush, name="dbqueue-last-words", daemon=True)
        writer.start()
        writer.join(WITHIN)


def _flush() -> None:
    handlers: list[Any] = [reference() for reference in reversed(_all_handlers)]  # newest first, as at shutdown
    for handler in handlers:
        if (listener := getattr(handler, "listener", None)) is not None:  # a QueueHandler's, from Python 3.12 on
            with suppress(Exception):
                listener.stop()
    for each in (*handlers, sys.stdout, sys.stderr):
        with suppress(Exception):
            each.flush()
    hooks.flush()
