"""The threads that an async handler's event loop lends to sync code, and how their connections are closed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.worker.thread_connections import close_raw

Result = TypeVar("Result")

MOST_THREADS: Final = 5
"""What Python gives a loop on a single-core machine, so that what runs there runs here."""


class LentThreads(ThreadPoolExecutor):
    """An executor for one handler call's ``sync_to_async(…, thread_sensitive=False)`` or ``asyncio.to_thread``.

    Each thread has its own Django connections. Once the call and its threads have ended, nothing else would close them:
    they would stay open until the garbage collector ran.
    """

    def __init__(self) -> None:
        super().__init__(MOST_THREADS, thread_name_prefix="dbqueue-lent")
        self._opened: dict[int, BaseDatabaseWrapper] = {}

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Run it in one of the threads."""
        return super().submit(self._run, fn, *args, **kwargs)

    def _run(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Result:
        try:
            return fn(*args, **kwargs)
        finally:
            for connection in connections.all(initialized_only=True):
                self._opened[id(connection)] = connection

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more, and close what the threads have opened once they have ended, if that is waited for."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        while wait and self._opened:
            close_raw(self._opened.popitem()[1])
