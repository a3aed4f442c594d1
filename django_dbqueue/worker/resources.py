"""What a child's coroutines share, such as an HTTP client: entered before its first use, left when the child stops.

Each resource is entered, kept and left by one task, as cancel scopes and task groups demand. Until it is entered, its
queues are not claimed in this child, so a failure costs no message anything.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.worker.pace import Backoff

ENTERED_WITHIN: Final = 30.0
"""Seconds within which a resource must have been entered."""
LEFT_WITHIN: Final = 5.0
"""Seconds within which all must have been left."""

logger = logging.getLogger("django_dbqueue.worker")

Maker = Callable[[], Any]


class Resources:
    """The resources of a child's event loop. ``changed`` is called when a queue can be claimed from now on."""

    def __init__(self, consumers: Iterable[Consumer], changed: Callable[[], None]) -> None:
        self._queues: dict[Maker, list[str]] = {}
        for consumer in consumers:
            if consumer.resource is not None:
                self._queues.setdefault(consumer.resource, []).append(consumer.queue)
        self._changed = changed
        self._values: dict[Maker, Any] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.unready: frozenset[str] = frozenset(queue for queues in self._queues.values() for queue in queues)
        """The queues that wait for their resource; read by the main thread."""

    def start(self) -> None:
        """Enter all, each in a task of its own."""
        self._stopped = asyncio.Event()
        self._tasks = [asyncio.create_task(self._keep(maker)) for maker in self._queues]

    async def leave(self) -> None:
        """Leave all that were entered."""
        self._stopped.set()
        if not self._tasks:
            return
        _, pending = await asyncio.wait(self._tasks, timeout=LEFT_WITHIN)
        for task in pending:
            logger.error("a resource could not be left within %g s: %s", LEFT_WITHIN, task.get_name())
            task.cancel()

    def arguments(self, consumer: Consumer) -> tuple[Any, ...]:
        """Return what a handler gets besides its message."""
        return () if consumer.resource is None else (self._values[consumer.resource],)

    async def _keep(self, maker: Maker) -> None:
        name, backoff = name_of(maker), Backoff(0.1, 30.0)
        asyncio.current_task().set_name(name)  # type: ignore[union-attr]
        while not self._stopped.is_set():
            entered = False
            try:
                manager = managed(maker)
                async with asyncio.timeout(ENTERED_WITHIN):
                    value = await manager.__aenter__()
                entered = True
                self._note(maker, value)
                await self._stopped.wait()
                await manager.__aexit__(None, None, None)
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                if entered:
                    logger.exception("the resource %s could not be left", name)
                    return
                delay = backoff.next()
                logger.exception(
                    "the resource %s could not be entered, retrying in %.1f s; until then this child claims nothing "
                    "from %s: %r",
                    name, delay, ", ".join(self._queues[maker]), error,
                )  # fmt: skip
                await self._nap(delay)

    def _note(self, maker: Maker, value: Any) -> None:
        self._values[maker] = value
        self.unready -= frozenset(self._queues[maker])
        self._changed()

    async def _nap(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return


def name_of(maker: Maker) -> str:
    """Return a resource's dotted name."""
    return f"{getattr(maker, '__module__', '?')}.{getattr(maker, '__qualname__', None) or repr(maker)}"


def managed(maker: Maker) -> AbstractAsyncContextManager[Any]:
    """Return the async context manager that this makes; an async generator function becomes one."""
    if inspect.isasyncgenfunction(maker):
        generator: Callable[[], AsyncIterator[Any]] = maker
        return asynccontextmanager(generator)()
    manager = maker()
    if not hasattr(manager, "__aenter__"):
        raise TypeError(
            f"{name_of(maker)} returned a {type(manager).__name__}, which is not an async context manager: return one, "
            "or write an async generator function that yields once."
        )
    made: AbstractAsyncContextManager[Any] = manager
    return made
