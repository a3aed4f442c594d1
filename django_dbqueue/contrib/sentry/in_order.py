"""What an event loop must not wait for, done one after the other in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial
from typing import Final

from django.db import connections

logger = logging.getLogger("django_dbqueue.hooks")


class SideThread:
    """Does what it is given at once; in the thread of an event loop, later, and in this order."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None

    def do(self, what: Callable[[], None]) -> None:
        """Do it, or have it done."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            what()
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="django_dbqueue-sentry")
        self._last = self._thread.submit(partial(copy_context().run, _do, what))

    def flush(self, seconds: float) -> None:
        """Wait until all of it is done."""
        if self._last is not None:
            wait([self._last], timeout=seconds)


in_order: Final = SideThread()
"""This process's."""


def _do(what: Callable[[], None]) -> None:
    try:
        what()
    except Exception:
        logger.exception("a check-in could not be sent; its message continues")
    finally:
        connections.close_all()
