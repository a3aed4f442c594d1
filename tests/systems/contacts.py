"""Article 004's example, a contact to write to, and its words in ours: push, poll and acquire.

Its kind is our queue, its scheduledAt our due time, and its lock and createdAt together are our token.
"""

from __future__ import annotations

from typing import Any

from django_dbqueue.models import Message

KEY = "c71de6b4-510f-11ed-9d4d-0242ac120002"
KIND = "Contact"
ALEX = {"name": "Alex", "emailAddress": "alex@example.com"}
FIVE_MINUTES = 60 * 5


def push(payload: Any = ALEX, *, key: str = KEY, kind: str = KIND, **options: Any) -> Message:
    return Message.objects.enqueue(payload, queue=kind, key=key, **options)


def poll(kind: str = KIND) -> list[Message]:
    """The article's SELECT: what is next, and nobody is asked to let go of it."""
    return Message.objects.peek(kind, limit=1)


def acquire(kind: str = KIND, *, timeout: float = FIVE_MINUTES) -> Message | None:
    """The article's SELECT and UPDATE in one."""
    return next(iter(Message.objects.claim(1, queue=kind, lease=timeout)), None)


def must_acquire(kind: str = KIND) -> Message:
    message = acquire(kind)
    assert message is not None
    return message
