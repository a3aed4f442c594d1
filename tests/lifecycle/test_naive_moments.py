"""Without ``USE_TZ`` Django's moments are naive: they are in the current time zone, wherever one is given."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.test import override_settings
from django.utils import timezone

from django_dbqueue import Envelope
from django_dbqueue.models import Message, Queue
from django_dbqueue.testing import assert_enqueued, refute_enqueued
from tests.factories import QUEUE, waiting

pytestmark = pytest.mark.django_db
NAIVE = datetime(2060, 1, 1, 12)  # noqa: DTZ001
MEANT = datetime(2060, 1, 1, 11, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _local() -> Iterator[None]:
    with override_settings(USE_TZ=False), timezone.override("Europe/Berlin"):
        yield


def test_a_message_is_due_then() -> None:
    waiting(at=NAIVE)
    Message.objects.enqueue_many([Envelope(1, at=NAIVE)], queue=QUEUE)
    assert [message.due_at for message in Message.objects.all()] == [MEANT, MEANT]


def test_a_pause_ends_then() -> None:
    Queue.objects.pause(QUEUE, until=NAIVE)
    assert Queue.objects.get().paused_until == MEANT


def test_an_assertion_finds_what_is_due_then() -> None:
    message = waiting(at=MEANT)
    assert assert_enqueued(QUEUE, at=NAIVE) == [message]
    with pytest.raises(AssertionError):
        refute_enqueued(QUEUE, at=NAIVE)
