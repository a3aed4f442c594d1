"""Sending into a group, and taking from it."""

from __future__ import annotations

from typing import Any

from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one


def send(payload: Any, group: str | None = "a", **options: Any) -> Message:
    return Message.objects.enqueue(payload, queue=QUEUE, group=group, **options)


def payloads(limit: int = 100) -> list[Any]:
    return [message.payload for message in Message.objects.claim(limit, queue=QUEUE)]


def take() -> Message:
    return claim_one()
