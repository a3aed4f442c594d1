"""Waiting for a result, by asking for it with growing pauses."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django_dbqueue.envelope import check_seconds

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyResult

SHORTEST: Final = 0.02
LONGEST: Final = 0.5
GROWS: Final = 1.5
"""The pause between two checks: seconds at first, at most, and by what it grows."""


def wait_for(result: AnyResult, *, timeout: float | timedelta | None = None) -> AnyResult:
    """Refresh a result until it is finished, and return it; TimeoutError after ``timeout`` seconds (None: never).

    InvalidMessage if ``timeout`` isn't a number of seconds, or a timedelta, of 0 or more.

    Inside a transaction that enqueued it, or that began before it ended at REPEATABLE READ, nobody can see it end.
    """
    until, pause = _until(timeout), SHORTEST
    while True:
        result.refresh()
        if result.is_finished:
            return result
        time.sleep(_pause(result, until, pause))
        pause = min(pause * GROWS, LONGEST)


async def await_for(result: AnyResult, *, timeout: float | timedelta | None = None) -> AnyResult:
    """Do as ``wait_for`` does, without blocking the event loop."""
    until, pause = _until(timeout), SHORTEST
    while True:
        await result.arefresh()
        if result.is_finished:
            return result
        await asyncio.sleep(_pause(result, until, pause))
        pause = min(pause * GROWS, LONGEST)


def _until(timeout: float | timedelta | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + check_seconds("timeout", timeout)


def _pause(result: AnyResult, until: float, pause: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError(
            f"Task {result.task.module_path} (result {result.id}) is still {result.status}, and the timeout is over. "
            f"Wait longer, or check that a worker runs the queue {result.task.queue_name}."
        )
    return min(pause, left)
