"""The few threads in which all coroutines of a child run what isn't async, each thread with its own connections.

Hundreds of coroutines share them, so they must not share a transaction: after each call the thread's connections are
restored to order, as they are after a sync handler. A call that left a transaction open fails.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.exceptions import TransactionNotAllowed
from django_dbqueue.worker.detached import Detachment
from django_dbqueue.worker.lent_threads import MOST_THREADS
from django_dbqueue.worker.thread_connections import close_raw, leave_clean, leave_demoted

Result = TypeVar("Result")
Calls = set[Future[Any]]

SENSITIVE_THREADS: Final = 4
"""Threads for ``sync_to_async`` and Django's async ORM: the calls of one coroutine all run in the same one."""
CHECKED_EVERY: Final = 1.0
"""Seconds after which an idle connection is checked before its next use."""

_calls: contextvars.ContextVar[Calls] = contextvars.ContextVar("dbqueue_calls")


class SyncThreads:
    """The threads of a child's event loop."""

    def __init__(self, detachment: Detachment) -> None:
        self.default = CleanThreads(MOST_THREADS, detachment)
        """For ``asyncio.to_thread`` and ``sync_to_async(…, thread_sensitive=False)``."""
        self._sensitive = [(ThreadSensitiveContext(), CleanThreads(1, detachment)) for _ in range(SENSITIVE_THREADS)]
        for key, threads in self._sensitive:
            SyncToAsync.context_to_thread_executor[key] = threads

    def context(self) -> tuple[contextvars.Context, Calls]:
        """Return a context for one coroutine, with the least busy thread, and where its calls will be found."""
        key, _ = min(self._sensitive, key=lambda each: each[1].pending)
        self._sensitive.append(self._sensitive.pop(0))  # take turns while all are idle
        calls: Calls = set()
        context = contextvars.Context()
        context.run(SyncToAsync.thread_sensitive_context.set, key)
        context.run(_calls.set, calls)
        return context, calls

    def shutdown(self) -> None:
        """Wait for the calls that are running, and close the connections."""
        for threads in (self.default, *(threads for _, threads in self._sensitive)):
            threads.shutdown()


class CleanThreads(ThreadPoolExecutor):
    """An executor that cleans up a thread's connections after each call, and closes them all in the end."""

    def __init__(self, most: int, detachment: Detachment) -> None:
        super().__init__(most, thread_name_prefix="dbqueue-sync")
        self._detachment = detachment
        self._opened: dict[tuple[int, str], BaseDatabaseWrapper] = {}
        self._checked = threading.local()
        self._pending: set[Future[Any]] = set()

    @property
    def pending(self) -> int:
        """Return how many calls run or wait."""
        return len(self._pending)

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Run it in one of the threads, on behalf of the coroutine that asks."""
        future = super().submit(self._run, fn, *args, **kwargs)
        for calls in (self._pending, _calls.get(None)):
            if calls is not None:
                calls.add(future)
                future.add_done_callback(calls.discard)
        return future

    def _run(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Result:
        succeeded = False
        leave_demoted()
        try:
            result = contextvars.copy_context().run(fn, *args, **kwargs)
            succeeded = True
        finally:
            self._detachment.end_if_forked(succeeded=succeeded)
            left_open = self._clean()
        if left_open:
            raise TransactionNotAllowed(
                "A function that an async consumer ran in a thread left a transaction open, and it was rolled back: "
                "other coroutines use that connection too. Open and end a transaction in one function."
            )
        return result

    def _clean(self) -> bool:
        """Restore this thread's connections to order; return whether a transaction was left open."""
        left_open = any(_is_in_transaction(each) for each in connections.all(initialized_only=True))
        leave_clean()
        now, thread = time.monotonic(), threading.get_ident()
        was_checked = now - getattr(self._checked, "at", 0.0) < CHECKED_EVERY
        for connection in connections.all(initialized_only=True):
            self._opened[thread, connection.alias] = connection
            if was_checked:
                vars(connection)["health_check_done"] = True
        if not was_checked:
            self._checked.at = now
        return left_open

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more; once the threads have ended, if that is waited for, close what they have opened."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        while wait and self._opened:
            close_raw(self._opened.popitem()[1])


def _is_in_transaction(connection: BaseDatabaseWrapper) -> bool:
    return connection.in_atomic_block or (connection.connection is not None and not connection.autocommit)
