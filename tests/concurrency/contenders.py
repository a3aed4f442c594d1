"""Those who contend for a message, or for its key: what each does, to be run beside another."""

from __future__ import annotations

from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession
from tests.factories import QUEUE, waiting


def rescue() -> int:
    return Message.objects.rescue(QUEUE)


def update() -> Message:
    return waiting(payload="new", key="k", on_conflict="update")


def requeue() -> int:
    return int(Message.objects.filter(key="k").requeue())


def drop() -> int:
    return int(Message.objects.filter(key="k").drop_all("by me"))


def claim() -> list[Message]:
    return Message.objects.claim(1, queue=QUEUE)


def claim_in_transaction(queue: str = QUEUE) -> list[Message]:
    """What a claim does before it commits."""
    return Claimer(Message, DjangoSession("default"), queue).claim(1, lease=60, max_reads=5)


def drop_by_key() -> bool:
    return Message.objects.drop(QUEUE, "k")
