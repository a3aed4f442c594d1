"""Waiting for a result, by asking for it with growing pauses."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from asgiref.sync import sync_to_async

from django_dbqueue.envelope import check_seconds
from django_dbqueue.exceptions import TransactionNotAllowed

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyResult

SHORTEST: Final = 0.02
LONGEST: Final = 0.5
GROWS: Final = 1.5
"""The pause between two checks: seconds at first, at most, and by what it grows."""


def wait_for(result: AnyResult, *, timeout: float | timedelta | None = None) -> AnyResult:
    """Refresh a result until it is finished, and return it; TimeoutError after ``timeout`` seconds (None: never).

    InvalidMessage if ``timeout`` isn't a number of seconds, or a timedelta, of 0 or more.

    TransactionNotAllowed inside a transaction, which doesn't see it end, or keeps the worker from seeing it at all.
    """
    until, pause = _until(timeout), SHORTEST
    while True:
        result.refresh()
        if result.is_finished:
            return result
        _refuse_inside_atomic(result)
        time.sleep(_pause(result, until, pause))
        pause = min(pause * GROWS, LONGEST)


async def await_for(result: AnyResult, *, timeout: float | timedelta | None = None) -> AnyResult:
    """Do as ``wait_for`` does, without blocking the event loop."""
    until, pause = _until(timeout), SHORTEST
    while True:
        await result.arefresh()
        if result.is_finished:
            return result
        await sync_to_async(_refuse_inside_atomic)(result)
        await asyncio.sleep(_pause(result, until, pause))
        pause = min(pause * GROWS, LONGEST)


def _refuse_inside_atomic(result: AnyResult) -> None:
    from django_dbqueue.models import Message
    from django_dbqueue.sessions.commit_hooks import is_only_a_testcase
    from django_dbqueue.sessions.django_session import in_callers_transaction, session_for

    connection = session_for(Message).connection
    if in_callers_transaction(connection) and not is_only_a_testcase(connection):
        raise TransactionNotAllowed(
            f"Task {result.task.module_path} (result {result.id}) is {result.status}, and inside a transaction it "
            "would stay so: no worker sees what the transaction sent, and it may not see what a worker commits. Wait "
            "after atomic() (in a view: without ATOMIC_REQUESTS)."
        )


def _until(timeout: float | timedelta | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + check_seconds("timeout", timeout)


def _pause(result: AnyResult, until: float, pause: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        why = f"Wait longer, or check that a worker runs the queue {result.task.queue_name}."
        if result.errors:
            why = f"Its last attempt failed with {result.errors[-1].exception_class_path}; it waits for the next one."
        task = f"Task {result.task.module_path} (result {result.id})"
        raise TimeoutError(f"{task} is still {result.status}, and the timeout is over. {why}")
    return min(pause, left)
