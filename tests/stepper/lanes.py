"""What senders and enders do in one lane, and what must hold of it when all have ended; for the models."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue import LeaseLost
from django_dbqueue.lifecycle.settle_many import settle_claims
from django_dbqueue.models import Line, Message, Ticket
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.statements import moves_sql
from tests.factories import QUEUE
from tests.stepper.contenders import claim

GROUP = "a"
PARKED = datetime(9999, 1, 1, tzinfo=UTC)
"""What is due later than this waits in its line."""
TWO_AT_ONCE = {"QUEUES": {QUEUE: {"group_limit": 2}}}


def send(payload: object = 0, **options: Any) -> Message:
    return Message.objects.enqueue(payload, queue=QUEUE, group=GROUP, **options)


def ack_in_a_transaction(message: Message) -> None:
    with transaction.atomic():
        message.ack()


def ack_as_a_worker(message: Message) -> None:
    """As a worker's batch of acks, which returns what it still held."""
    session = session_of("default")
    if not settle_claims(session, moves_sql.ack(session.server), [message.claim]):
        raise LeaseLost(message.pk, "ack")


ENDS: dict[str, Callable[[Message], Any]] = {
    "ack": lambda message: message.ack(),
    "ack in a transaction": ack_in_a_transaction,
    "batch ack": ack_as_a_worker,
}
ends = pytest.mark.parametrize("end", ENDS)


def may_run() -> list[int]:
    """Who runs, or is due: by its own row, whatever its ticket says."""
    ready = Message.objects.filter(status="n", available_at__lt=PARKED)
    return sorted([*ready.values_list("pk", flat=True), *running()])


def running() -> list[int]:
    return list(Message.objects.filter(status="run").values_list("pk", flat=True))


def waits() -> list[int]:
    return list(Line.objects.order_by("message_id").values_list("message_id", flat=True))


def assert_lane_is_right(*, width: int = 1, is_paused: bool = False) -> None:
    """Nobody will kick any more: who waits must wait for a ticket that is out, and who may run must have one."""
    out = dict(Ticket.objects.values_list("ticket", "message_id"))
    assert sorted(out.values()) == may_run(), "a ticket names an ended message, or one may run without a ticket"
    assert len(out) <= width, "more run at once than the limit"
    parked = Message.objects.filter(status="n", available_at__gte=PARKED).order_by("pk").values_list("pk", flat=True)
    assert waits() == list(parked), "the line is not who waits"
    assert is_paused or not waits() or set(range(width)) <= set(out), "one is left behind: a ticket is free"


def let_all_run(*, width: int = 1) -> list[int]:
    """Let the messages of the lane run as workers do; return the ids in the order in which they began."""
    began = sorted(running())
    for pk in began:
        message = Message.objects.get(pk=pk)
        message.held_token = message.claim_token
        message.ack()
        assert_lane_is_right(width=width)
    while messages := claim(100):
        assert len(messages) <= width
        began += [message.pk for message in messages]
        for message in messages:
            message.ack()
        assert_lane_is_right(width=width)
    assert waits() == list(Ticket.objects.all()) == []
    return began


def live() -> list[int]:
    rest = Message.objects.exclude(status="y").exclude(available_at=None)
    return list(rest.order_by("pk").values_list("pk", flat=True))


def in_order(first: list[int], began: list[int]) -> bool:
    """Whether those that were due at first began first, and the others by their ids."""
    rest = began[len(first) :]
    return began[: len(first)] == first and rest == sorted(rest)


def assert_rest_runs_in_order(*, width: int = 1) -> None:
    due, alive = may_run(), live()
    began = let_all_run(width=width)
    assert sorted(began) == alive
    assert in_order(due, began)
