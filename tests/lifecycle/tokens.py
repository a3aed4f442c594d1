"""Sending with a token, and what is remembered of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_dbqueue.models import Message, Once
from django_dbqueue.models.fields import DbNow
from tests.factories import QUEUE


def send(payload: Any = "a", token: str | None = "t", **options: Any) -> Message:
    return Message.objects.enqueue(payload, **({"queue": QUEUE, "once": token} | options))


def send_many(*items: Any, **options: Any) -> tuple[int, int, int]:
    report = Message.objects.enqueue_many(items, queue=QUEUE, **options)
    return report.created, report.updated, report.ignored


def let_expire() -> None:
    Once.objects.update(expires_at=DbNow() - timedelta(microseconds=1))


def named() -> dict[int, int]:
    """How many tokens name each message."""
    found = list(Once.objects.values_list("message_id", flat=True))
    return {message_id: found.count(message_id) for message_id in found}


def bodies() -> list[Any]:
    return [message.payload for message in Message.objects.order_by("pk")]
