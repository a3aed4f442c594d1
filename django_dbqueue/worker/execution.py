"""One delivery through its handler: decode, run, decide. The decision is a frozen value; other modules carry it out."""

from __future__ import annotations

import asyncio
import inspect
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from asgiref.sync import async_to_sync
from django.db import transaction

from django_dbqueue.conf import QueueOptions
from django_dbqueue.consumers import Consumer, Reject, Retry
from django_dbqueue.databases.statements import Kept
from django_dbqueue.envelope import check_seconds
from django_dbqueue.exceptions import UndecodableMessage
from django_dbqueue.lifecycle.django_session import session_of
from django_dbqueue.lifecycle.error_texts import error_text, reason_of
from django_dbqueue.retry import is_victim
from django_dbqueue.worker.holding import Delivery
from django_dbqueue.worker.lent_threads import LentThreads
from django_dbqueue.worker.payloads import read
from django_dbqueue.worker.thread_connections import leave_clean


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to become of a message whose handler has ended; ``delay`` in seconds."""

    verb: Literal["ack", "acked", "nack", "reject", "release", "drop", "nothing"]
    delay: float | None = None
    error: str = ""
    result: Kept | None = None
    """What is kept of the return value, if the message is acked."""
    keeps_trace: bool = False
    """Whether the record of a failure keeps its traceback."""


RELEASE_PAUSE: Final = 1.0
"""Seconds until a message that its own handler released is delivered again."""
ACK = Verdict("ack")
ACKED = Verdict("acked")
"""Already acked, in one commit with the handler's rows."""
NOTHING = Verdict("nothing")


def execute(delivery: Delivery) -> Verdict:
    """Run the handler in this thread and return the verdict; raise nothing, and leave no transaction open."""
    try:
        return attempt(delivery)
    except BaseException as error:
        return verdict_after(delivery, error)
    finally:
        leave_clean()


def attempt(delivery: Delivery) -> Verdict:
    """Decode the message and run the handler; raise whatever ends it other than its return."""
    delivery.message.release_pause = RELEASE_PAUSE
    read(delivery.message)
    delivery.message.decode_ahead()
    return _call(delivery)


def verdict_after(delivery: Delivery, error: BaseException) -> Verdict:
    """Return what follows from what an attempt has raised; raise nothing, whatever the error does when inspected.

    LeaseLost fails like any other error. If the claim is lost, the nack is refused. If the handler's own transaction
    had ended the claim, and was rolled back with the error, the message is still ours to release.
    """
    try:
        runner = delivery.consumer.runner
        return decided(delivery, error) if runner is None else runner.judge(delivery, error)
    except BaseException as unreadable:
        return Verdict("nack", backoff(delivery.options, delivery.reads), error_text(unreadable) or "")


def decided(delivery: Delivery, error: BaseException) -> Verdict:
    """Return what follows from an error; whatever the error raises when inspected is raised."""
    if isinstance(error, UndecodableMessage):
        return Verdict("reject", error=error_text(error) or "")
    if isinstance(error, Reject):
        return Verdict("reject", error=error_text(reason_of(error)) or "Rejected")
    delay, text = backoff(delivery.options, delivery.reads), error_text(error)
    if isinstance(error, Retry):
        text = error_text(f"Retry: {reason_of(error)}")
        try:
            delay = delay if error.after is None else check_seconds("after", error.after)
        except BaseException as wrong:  # a subclass may have put anything there
            text = error_text(f"{text} (by the usual back-off, for its after can't be used: {reason_of(wrong)})")
    elif isinstance(error, TimeoutError) and delivery.timed_out:
        text = timed_out(delivery.consumer, delivery.options)
    return Verdict("nack", delay, text or "")


def _call(delivery: Delivery) -> Verdict:
    if delivery.consumer.runner is not None:
        verdict: Verdict = delivery.consumer.runner.run(delivery)
        return verdict
    if delivery.consumer.is_async:
        _call_async(delivery)
    elif delivery.consumer.transactional:
        return in_transaction(delivery, lambda: _call_handler(delivery))
    else:
        _call_handler(delivery)
    return ACK


def _call_handler(delivery: Delivery) -> None:
    _refuse_unawaited(delivery.consumer, delivery.consumer.handler(delivery.message))


def in_transaction(delivery: Delivery, work: Callable[[], object]) -> Verdict:
    """Make what the work writes and the ack one commit; a deadlock victim starts again.

    What the work settled itself stays that way.
    """
    message, alias = delivery.message, delivery.message._state.db
    commits: list[str] = []

    def attempt() -> Verdict:
        with message.transaction():
            transaction.on_commit(lambda: commits.append(alias), using=alias)
            work()
            settled_by_itself = message.settlements_pending
        return NOTHING if settled_by_itself else ACKED

    # A hook on the commit may hit a deadlock too, and then there is nothing left to start again. However long the
    # handler took, nobody else waits for it
    return session_of(alias).outermost(attempt, passing=lambda error: is_victim(error) and not commits, within=math.inf)


def _call_async(delivery: Delivery) -> None:
    handler, timeout = delivery.consumer.handler, delivery.options.timeout

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(threads)
        try:
            async with asyncio.timeout(timeout) as scope:
                _refuse_unawaited(delivery.consumer, await handler(delivery.message))
        finally:
            delivery.timed_out = scope.expired()

    with LentThreads() as threads:
        async_to_sync(run)()


def _refuse_unawaited(consumer: Consumer, returned: object) -> None:
    """Raise TypeError if a handler returned something that still has to be awaited: its work was not done."""
    if returned is None or not inspect.isawaitable(returned):
        return
    if inspect.iscoroutine(returned):
        returned.close()
    raise TypeError(
        f"{consumer.name} returned a {type(returned).__name__} that nobody awaited, so the message was not processed. "
        "Write the consumer itself as async def, without a decorator that hides it, and let it await what it calls."
    )


def timed_out(consumer: Consumer, options: QueueOptions) -> str:
    """Say that a handler ran too long."""
    return f"TimedOut: {consumer.name} ran longer than its timeout of {options.timeout:g} s"


def backoff(options: QueueOptions, read_count: int) -> float:
    """Return seconds until the next try: doubled with each read up to the limit, with jitter below it.

    The jitter takes off up to half ("equal jitter", M. Brooker, AWS Architecture Blog, 2015).
    """
    exponent = min(max(read_count - 1, 0), 60)
    return min(options.backoff_max, options.backoff * 2.0**exponent) * random.uniform(0.5, 1.0)
