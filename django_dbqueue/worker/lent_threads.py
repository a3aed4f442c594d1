"""The threads that an async handler's event loop lends to sync code, and how their connections are closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from asgiref.sync import async_to_sync
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.worker.delivery import Delivery
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


def in_own_loop(delivery: Delivery, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a handler's coroutine in an event loop of its own and return what it returns; cancel it at its timeout.

    What it runs by ``sync_to_async`` or Django's async ORM runs in this thread, on its connections. TimeoutError if it
    was cancelled, also if it took no notice and returned.
    """
    over_at, timeout = delivery.over_at, delivery.options.timeout
    left = timeout if over_at is None else max(0.0, over_at - time.monotonic())
    scopes: list[asyncio.Timeout] = []

    async def run() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        loop.set_default_executor(threads)
        if call is not None and task is not None:
            call.cancel = partial(_cancel, loop, task)  # before the check: who interrupts does the reverse
            if call.is_interrupted:
                raise asyncio.CancelledError
        async with asyncio.timeout(left) as scope:
            scopes.append(scope)
            return await work()

    call = delivery.call
    delivery.cancels = left is not None
    try:
        with LentThreads() as threads:
            returned = async_to_sync(run)()
    finally:
        if call is not None:
            call.cancel = None
        was_cancelled = any(scope.expired() for scope in scopes)
        delivery.timed_out = delivery.timed_out or was_cancelled
    if was_cancelled:
        raise TimeoutError
    return returned


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    with suppress(RuntimeError):  # it has just ended
        loop.call_soon_threadsafe(task.cancel)
