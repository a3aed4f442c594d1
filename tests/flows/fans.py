"""Flows for tests, and their messages run one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_dbqueue import Envelope, flow
from django_dbqueue.models import Edge, Flow, Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.keepers import Keepers
from tests.factories import QUEUE, claim_one


def payloads(limit: int = 1_000) -> list[Any]:
    return [message.payload for message in Message.objects.claim(limit, queue=QUEUE)]


def run(payload: Any, how: Callable[[Message], Any] = Message.ack) -> Message:
    message = claim_one()
    assert message.payload == payload
    how(message)
    return message


def reject(message: Message) -> None:
    message.reject("no")


def keep() -> None:
    """What a worker does every 15 seconds: nobody else looks after what the dead did not come to do."""
    keeper = Keepers(session_of("default"))
    while keeper.turn():
        pass


def fan(count: int = 3, *, when: str = "done", **options: Any) -> int:
    with flow("a fan") as f:
        parts = f.enqueue_many(range(count), queue=QUEUE)
        f.enqueue(Envelope("last", **options), queue=QUEUE, after=parts, when=when)
    return f.id


def has_ended(flow_id: int) -> bool:
    return Flow.objects.get(pk=flow_id).progress().all_finished and not Edge.objects.exists()


def break_in_a_flow() -> None:
    with flow("broken") as f:
        f.enqueue(1, queue=QUEUE)
        raise ZeroDivisionError
