"""What actors do to messages, and what the table says of one afterwards; for the models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.sessions.django_session import session_of
from tests.factories import QUEUE

SETTLEMENTS: dict[str, Callable[[Message], Any]] = {
    "ack": lambda message: message.ack(),
    "batch ack": lambda message: Message.objects.ack([message]),
    "nack": lambda message: message.nack(error="late"),
    "reject": lambda message: message.reject("late"),
    "release": lambda message: message.release(),
}


def claim(limit: int) -> list[Message]:
    """Claim as a worker does: no rescue, and no question whether the queue is paused."""
    return Claimer(Message, session_of("default"), QUEUE).claim(limit, lease=60, max_reads=5)


def places(message_id: int) -> list[str]:
    """Return where a message is: one place, whatever happened (P3)."""
    statuses = Message.objects.filter(pk=message_id).values_list("status", flat=True)
    return [*statuses, *("history" for _ in ArchivedMessage.objects.filter(message_id=message_id))]


def live_ids(key: str) -> list[int]:
    """Return the live messages of a key: at most one (P11)."""
    return list(Message.objects.filter(key=key, live=1).values_list("pk", flat=True))
