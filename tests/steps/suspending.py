"""Messages that are suspended, and made to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue import Suspended
from django_dbqueue.models import Message, Step
from django_dbqueue.models.fields import DbNow
from tests.factories import QUEUE, claim_one


def suspends(call: Callable[[], Any]) -> None:
    with pytest.raises(Suspended):
        call()


def is_ready(message: Message) -> bool:
    return Message.objects.ready(QUEUE).filter(pk=message.pk).exists()


def let_come(message: Message) -> Message:
    """Let the time of a suspended message come, and claim it."""
    Message.objects.filter(pk=message.pk).update(available_at=DbNow())
    Step.objects.filter(message_id=message.pk, until__isnull=False).update(until=DbNow())
    return claim_one()
