"""The threads that an async handler's event loop lends to what isn't async, and the end of their connections."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from django.db import connections

from django_dbqueue.worker.sessions import close_raw

Result = TypeVar("Result")

MOST_THREADS: Final = 5
"""What Python gives a loop on a machine with one core, so that what runs there runs here."""


class LentThreads(ThreadPoolExecutor):
    """Runs what one call of a handler sends by ``sync_to_async(…, thread_sensitive=False)`` or ``asyncio.to_thread``.

    Each thread has Django's connections to itself. When the call has ended and the threads with it, nobody else would
    close them: they would stay open until the garbage collector comes by.
    """

    def __init__(self) -> None:
        super().__init__(MOST_THREADS, thread_name_prefix="dbqueue-lent")
        self._opened: dict[int, Any] = {}

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
        """Take no more, and close what the threads have opened once they have ended, if that is waited for."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        while wait and self._opened:
            close_raw(self._opened.popitem()[1])
