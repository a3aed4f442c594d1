"""A list of deliveries through their consumer's handler, and what becomes of each of them.

In a transaction, what one of them breaks costs the others nothing: everything is rolled back, and the handler gets the
list again in halves, until the failing one stands alone. Without a transaction nobody knows what the handler has done,
so each of them failed. Of a group that runs in order, those behind one that failed are released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from django.db import Error

from django_dbqueue.consumers.unrun import refuse_unrun
from django_dbqueue.exceptions import LeaseLost, MessageCancelled
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import ACK, Verdict, in_one_commit, prepare, verdict_after
from django_dbqueue.worker.interruption import interruptible
from django_dbqueue.worker.raised import forget_variables
from django_dbqueue.worker.thread_connections import leave_clean, leave_demoted

Verdicts = list[Verdict]
Within = Callable[[Callable[[], Verdicts]], Verdicts]


_WELL: Final = ("ack", "acked", "nothing")
_RELEASED: Final = Verdict("release")


class Ended(NamedTuple):
    """How a delivery ended, and what was raised, if anything was."""

    delivery: Delivery
    verdict: Verdict
    error: BaseException | None = None


def _plainly(work: Callable[[], Verdicts]) -> Verdicts:
    return work()


def _forgetting_variables(work: Callable[[], Verdicts]) -> Verdicts:
    try:
        return work()
    except BaseException as error:
        forget_variables(error)
        raise


def execute_batch(deliveries: Sequence[Delivery]) -> list[Ended]:
    """Run the handler in this thread; raise nothing, and leave no transaction open."""
    leave_demoted()
    try:
        return attempt_batch(deliveries, _forgetting_variables)
    finally:
        leave_clean()


def attempt_batch(deliveries: Sequence[Delivery], within: Within = _plainly) -> list[Ended]:
    """Decode the messages, run the handler with those that can be, and return how each ended.

    ``within`` calls what it is given, and lets its errors pass.
    """
    ended: list[Ended] = []
    ready: list[Delivery] = []
    for delivery in deliveries:
        if behind := _behind_a_failure([delivery], ended):
            ended += behind
            continue
        try:
            prepare(delivery)
        except BaseException as error:
            ended += _failed([delivery], error)
        else:
            ready.append(delivery)
    if ready:
        ended += (_in_parts if ready[0].consumer.transactional else _at_once)(ready, within)
    return ended


def _call(deliveries: Sequence[Delivery]) -> list[Verdict]:
    consumer = deliveries[0].consumer
    for delivery in deliveries:
        delivery.message.in_batch = True
    refuse_unrun(consumer.name, consumer.handler([delivery.message for delivery in deliveries]))
    return [ACK] * len(deliveries)


def _failed(deliveries: Iterable[Delivery], error: BaseException) -> list[Ended]:
    failed = list(deliveries)
    return [Ended(each, verdict_after(each, error, is_alone=len(failed) == 1), error) for each in failed]


def _behind_a_failure(later: Iterable[Delivery], ended: Iterable[Ended]) -> list[Ended]:
    """Return, as released, those of groups in which one before them has failed."""
    failed = {each.delivery.followers for each in ended if each.verdict.verb not in _WELL} - {None}
    return [Ended(each, _RELEASED) for each in later if each.followers in failed] if failed else []


def _at_once(deliveries: Sequence[Delivery], within: Within) -> list[Ended]:
    try:
        return list(map(Ended, deliveries, within(partial(interruptible, deliveries, partial(_call, deliveries)))))
    except BaseException as error:
        return _failed(deliveries, error)


def _in_parts(deliveries: Sequence[Delivery], within: Within) -> list[Ended]:
    """Run the handler in one commit with all, without those whose lease is lost, or else in halves."""
    ended: list[Ended] = []
    parts = [list(deliveries)]
    while parts:
        part = parts.pop()
        if cancelled := [each for each in part if each.cancelled_at is not None]:
            ended += _failed(cancelled, MessageCancelled())
            part = [each for each in part if each.cancelled_at is None]
            if not part:
                continue
        if behind := _behind_a_failure(part, ended):
            ended += behind
            part = [each for each in part if each not in {one.delivery for one in behind}]
            if not part:
                continue
        run = partial(in_one_commit, part, partial(_call, part))
        try:
            ended += map(Ended, part, within(partial(interruptible, part, run)))
        except BaseException as error:
            lost = [each for each in part if each.is_lost] if isinstance(error, LeaseLost) else []
            if lost and len(part) > 1:
                ended += (Ended(each, verdict_after(each, LeaseLost(each.claim.id, "ack")), error) for each in lost)
                parts.append([each for each in part if each not in lost])
            elif len(part) == 1 or _is_no_ones_fault(part, error):
                ended += _failed(part, error)
            else:
                half = (len(part) + 1) // 2
                parts += (part[half:], part[:half])
        parts = [each for each in parts if each]
    return ended


def _is_no_ones_fault(part: Sequence[Delivery], error: BaseException) -> bool:
    """Return whether halves would fail as well: the time is over, all are cancelled, or the connection is gone."""
    if any(delivery.timed_out for delivery in part) or all(each.cancelled_at is not None for each in part):
        return True
    connection = part[0].session.connection
    return isinstance(error, Error) and (connection.connection is None or not connection.is_usable())
