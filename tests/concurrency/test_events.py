"""Two at one message: whoever is first leaves the event, and whoever is second leaves none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from django_dbqueue import LeaseLost
from django_dbqueue.lifecycle import expired_rows
from django_dbqueue.models import Message, MessageEvent
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import DjangoSession
from tests.concurrency.steps import meet
from tests.factories import QUEUE, held, held_many, stuck

pytestmark = pytest.mark.django_db(transaction=True)


def nack(message: Message) -> str:
    with suppress(LeaseLost):
        message.nack(error="no")
        return "nacked"
    return "lost"


def rescue(message: Message) -> int:
    return Message.objects.rescue(message.queue)


def requeue(message: Message) -> int:
    return Message.objects.filter(pk=message.pk).requeue(by="ann")


@pytest.mark.parametrize(
    ("first", "second", "waits", "kinds"),
    [
        (nack, rescue, False, ["failed"]),
        (rescue, nack, True, ["rescued"]),
        (requeue, nack, True, ["requeued"]),
        (nack, nack, True, ["failed"]),
    ],
)
def test_of_two_that_move_one_message_the_first_leaves_an_event(
    first: Callable[[Message], Any], second: Callable[[Message], Any], waits: bool, kinds: list[str]
) -> None:
    held(max_reads=1).nack(error="no")  # the group of failures is there, so that only the message is waited for
    message = stuck()
    before = set(MessageEvent.objects.values_list("id", flat=True))
    other = Message.objects.get(pk=message.pk)
    other.held_token = message.held_token
    meet(lambda: first(message), lambda: second(other), waits=waits)
    left = MessageEvent.objects.exclude(pk__in=before).order_by("id")
    assert list(left.values_list("kind", flat=True)) == kinds


def test_forgetting_waits_for_no_move_that_is_not_committed() -> None:
    message, *old = held_many(3)
    Message.objects.nack(old)
    MessageEvent.objects.update(at=DbNow() - timedelta(days=31))

    def forget() -> int:
        return expired_rows.forget_events(DjangoSession("default"), age=30 * 86_400.0, limit=100)

    met = meet(lambda: nack(message), forget, waits=False)
    assert (met.first, met.second) == ("nacked", 2)
    assert list(MessageEvent.objects.values_list("message_id", flat=True)) == [message.pk]


def test_two_that_forget_share_the_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired_rows, "BATCH", 2)
    Message.objects.nack(held_many(4, queue=QUEUE))
    MessageEvent.objects.update(at=DbNow() - timedelta(days=31))

    def forget() -> int:
        return expired_rows.forget_events(DjangoSession("default"), age=30 * 86_400.0, limit=2)

    met = meet(forget, forget, waits=False)
    assert (met.first, met.second) == (2, 2)
    assert not MessageEvent.objects.exists()
