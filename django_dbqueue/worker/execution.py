"""One delivery through its handler: decode, run, decide. The decision is a frozen value; other modules carry it out."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from contextvars import copy_context
from typing import Final, Literal, NamedTuple

from django.db import transaction

from django_dbqueue.conf import QueueOptions
from django_dbqueue.consumers import Reject, Retry
from django_dbqueue.consumers.registry import Consumer, name_in
from django_dbqueue.consumers.unrun import refuse_unrun
from django_dbqueue.databases.statement import Kept
from django_dbqueue.envelope import check_seconds
from django_dbqueue.exceptions import InvalidFlow, InvalidStep, Suspended, UndecodableMessage
from django_dbqueue.failures.error_texts import class_path, error_text, reason_of
from django_dbqueue.lifecycle.acked_transaction import acked_with_their_rows
from django_dbqueue.lifecycle.result_rows import OversizedResult, keep
from django_dbqueue.models import Message
from django_dbqueue.sessions.retry import is_victim
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.interruption import interruptible
from django_dbqueue.worker.lent_threads import in_own_loop
from django_dbqueue.worker.payloads import read
from django_dbqueue.worker.raised import forget_variables
from django_dbqueue.worker.resources import managed
from django_dbqueue.worker.returned import kept_of
from django_dbqueue.worker.thread_connections import leave_clean, leave_demoted


class Verdict(NamedTuple):
    """What is to become of a message whose handler has ended; ``delay`` in seconds."""

    verb: Literal["ack", "acked", "nack", "reject", "release", "drop", "cut off", "nothing"]
    delay: float | None = None
    error: str = ""
    result: Kept | None = None
    """What is kept of the return value, if the message is acked."""
    keeps_trace: bool = False
    """Whether the record of a failure keeps its traceback."""
    exception: str | None = None
    """The path of the class of what the handler raised, if it raised something."""


RELEASE_PAUSE: Final = 1.0
"""Seconds until a message that its own handler released is delivered again."""
TIMED_OUT: Final = "builtins.TimeoutError"
"""The path of the class that stands for a handler which ran too long."""
INTERRUPTED: Final = "Interrupted: its process was ended before the handler returned."
ACK = Verdict("ack")
ACKED = Verdict("acked")
"""Already acked, in one commit with the handler's rows."""
NOTHING = Verdict("nothing")


def execute(delivery: Delivery) -> Verdict:
    """Run the handler in this thread and return the verdict; raise nothing, and leave no transaction open."""
    leave_demoted()
    try:
        return interruptible([delivery], lambda: attempt(delivery))
    except BaseException as error:
        forget_variables(error)
        return verdict_after(delivery, error)
    finally:
        leave_clean()


def attempt(delivery: Delivery) -> Verdict:
    """Decode the message and run the handler; raise whatever ends it other than its return."""
    prepare(delivery)
    return _call(delivery)


def prepare(delivery: Delivery) -> None:
    """Read what the claim has left of the message, and decode it; raise whatever keeps the handler from having it."""
    message = delivery.message
    message.release_pause = RELEASE_PAUSE
    if delivery.options.timeout is not None:
        message.over_at = delivery.over_at
    read(delivery)
    if delivery.consumer.runner is None and (task := name_in(message.headers_text)) is not None:
        raise Reject(
            f"It is the task {task}, but its queue has the consumer {delivery.consumer.name}, which runs no tasks: "
            "give one of them another queue, and send it again."
        )
    message.decode_now()


def verdict_after(delivery: Delivery, error: BaseException, *, is_alone: bool = True) -> Verdict:
    """Return what follows from what an attempt has raised; raise nothing, whatever the error does when inspected.

    LeaseLost fails like any other error. If the claim is lost, the nack is refused. If the handler's own transaction
    had ended the claim, and was rolled back with the error, the message is still ours to release. ``is_alone``: the
    call had no other message, so what can't ever succeed is this one.
    """
    try:
        runner = delivery.consumer.runner
        verdict: Verdict = decided(delivery, error, is_alone) if runner is None else runner.judge(delivery, error)
        if verdict.verb in ("nack", "reject") and not delivery.message.settled:
            delivery.raised = error
        return verdict
    except BaseException as unreadable:
        delivery.raised = error
        delay, text = backoff(delivery.options, delivery.reads), error_text(unreadable)
        return Verdict("nack", delay, text or "", exception=class_path(unreadable))


def decided(delivery: Delivery, error: BaseException, is_alone: bool = True) -> Verdict:
    """Return what follows from an error; whatever the error raises when inspected is raised."""
    if delivery.cancelled_at is not None or (isinstance(error, Suspended) and error.message_id == delivery.claim.id):
        return NOTHING
    if is_alone and isinstance(error, UndecodableMessage | InvalidStep | InvalidFlow | OversizedResult):
        return Verdict("reject", error=error_text(error) or "", exception=class_path(error))
    if isinstance(error, Reject):
        return Verdict("reject", error=error_text(reason_of(error)) or "Rejected", exception=class_path(error))
    delay, text = backoff(delivery.options, delivery.reads), error_text(error)
    if isinstance(error, Retry):
        text = error_text(f"Retry: {reason_of(error)}")
        try:
            delay = delay if error.after is None else check_seconds("after", error.after)
        except BaseException as wrong:  # a subclass may have put anything there
            text = error_text(f"{text} (by the usual back-off, for its after can't be used: {reason_of(wrong)})")
    elif isinstance(error, TimeoutError) and delivery.timed_out:
        return Verdict(
            "nack", delay, timed_out(delivery.consumer, delivery.options, delivery.message), exception=TIMED_OUT
        )
    return Verdict("nack", delay, text or "", exception=class_path(error))


def _call(delivery: Delivery) -> Verdict:
    consumer = delivery.consumer
    if consumer.runner is not None:
        verdict: Verdict = consumer.runner.run(delivery)
        return verdict
    if consumer.is_async:
        return acked(delivery, _call_async(delivery))
    if consumer.transactional:
        return in_transaction(delivery, lambda: _keep(delivery, _call_handler(delivery)))
    return acked(delivery, _call_handler(delivery))


def acked(delivery: Delivery, returned: object) -> Verdict:
    """Return the verdict on a handler that returned this."""
    kept = kept_of(delivery, returned)
    return ACK if kept is None else Verdict("ack", result=kept)


def _keep(delivery: Delivery, returned: object) -> None:
    """Keep what a handler returned in its transaction."""
    if (kept := kept_of(delivery, returned)) is not None:
        keep(delivery.session, {delivery.claim.id: kept}, {delivery.claim.id})


def _call_handler(delivery: Delivery) -> object:
    returned = delivery.consumer.handler(delivery.message)
    refuse_unrun(delivery.consumer.name, returned)
    return returned


def in_transaction(delivery: Delivery, work: Callable[[], object]) -> Verdict:
    """Make what the work writes and the ack one commit; a deadlock victim starts again.

    What the work settled itself stays that way.
    """
    [verdict] = in_one_commit([delivery], work)
    return verdict


def in_one_commit(deliveries: Sequence[Delivery], work: Callable[[], object]) -> list[Verdict]:
    """Make what the work writes and the acks of all deliveries one commit, as ``in_transaction`` does for one."""
    messages = [delivery.message for delivery in deliveries]
    session = deliveries[0].session
    commits: list[str] = []

    def attempt() -> list[Verdict]:
        for message in messages:
            message.begin_run()
        with acked_with_their_rows(messages, session):
            transaction.on_commit(lambda: commits.append(session.using), using=session.using)
            work()
            for delivery in deliveries:
                delivery.refuse_late()
            settled = [message.settlements_pending > 0 for message in messages]
        return [NOTHING if by_itself else ACKED for by_itself in settled]

    # A hook on the commit may hit a deadlock too, and then there is nothing left to start again. However long the
    # handler took, nobody else waits for it
    return session.outermost(
        lambda: copy_context().run(attempt),
        passing=lambda error: is_victim(error) and not commits,
        within=math.inf,
    )


def _call_async(delivery: Delivery) -> object:
    """Run an async handler in an event loop of its own: in tests, on their connection (a worker has one loop for all).

    Its resource is entered for this call alone.
    """
    consumer = delivery.consumer

    async def run() -> object:
        async with AsyncExitStack() as stack:
            resource = consumer.resource
            shared = () if resource is None else (await stack.enter_async_context(managed(resource)),)
            returned = await consumer.handler(delivery.message, *shared)
            refuse_unrun(consumer.name, returned)
            return returned

    return in_own_loop(delivery, run)


def timed_out(consumer: Consumer, options: QueueOptions, message: Message) -> str:
    """Say that the handler of a message, or the task that it is, ran too long.

    The timeout may be unknown: a task that is another one by now, or gone, where the supervisor looks for it.
    """
    length = "" if options.timeout is None else f" of {options.timeout:g} s"
    return f"TimedOut: {consumer.name_for(message.headers_text)} ran longer than its timeout{length}"


def backoff(options: QueueOptions, read_count: int) -> float:
    """Return seconds until the next try: doubled with each read up to the limit, with jitter below it.

    The jitter takes off up to half ("equal jitter", M. Brooker, AWS Architecture Blog, 2015).
    """
    exponent = min(max(read_count - 1, 0), 60)
    return min(options.backoff_max, options.backoff * 2.0**exponent) * random.uniform(0.5, 1.0)
