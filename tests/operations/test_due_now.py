"""What was to come later is made due now by an operator, and nothing else about it changes."""

from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue import Envelope
from django_dbqueue.models import Group, Message, MessageEvent
from tests.factories import QUEUE, claim_one, claimed, row, waiting

pytestmark = pytest.mark.django_db(transaction=True)


def in_group(payload: Any, **options: Any) -> Message:
    return Message.objects.enqueue(payload, queue=QUEUE, group="a", **options)


def test_a_delayed_message_is_due_now_and_shows_by_whom() -> None:
    message = waiting(delay=3600, key="k", max_reads=3, priority=4)
    before = row(message)
    assert claimed() == []
    assert Message.objects.filter(pk=message.pk).due_now(by="ann") == 1
    after = row(message)
    changed = {name for name, value in before.items() if after[name] != value}
    assert changed == {"available_at", "due_at"}
    assert after["available_at"] == after["due_at"] < before["due_at"]
    [event] = MessageEvent.objects.filter(message_id=message.pk)
    assert (event.kind, event.actor) == ("hastened", "ann")
    assert claim_one() == message


def test_a_retry_comes_at_once_with_its_counts_and_its_error() -> None:
    message = waiting()
    claim_one().nack(delay=3600, error="not yet")
    assert Message.objects.delayed(QUEUE).due_now() == 1
    again = claim_one()
    assert (again.pk, again.read_count, again.error) == (message.pk, 2, "not yet")


def test_one_that_was_released_with_a_pause_has_been_due_all_along() -> None:
    waiting()
    holder = claim_one()
    holder.release_pause = 3600.0
    holder.release()
    before = row(holder)
    assert Message.objects.all().due_now() == 0
    assert row(holder) == before


def test_the_first_of_a_group_runs_now_and_the_others_keep_their_order() -> None:
    first, second = in_group(1, delay=3600), in_group(2)
    assert claimed() == []
    assert Message.objects.filter(pk=first.pk).due_now() == 1
    holder = claim_one()
    assert holder == first
    assert claimed() == []
    holder.ack()
    assert claim_one() == second


def test_one_that_is_not_at_its_turn_waits_on_but_not_for_its_time() -> None:
    in_group(1)
    second = in_group(2, delay=3600)
    assert Message.objects.filter(pk=second.pk).due_now() == 1
    assert list(Message.objects.waiting(QUEUE)) == [second]
    assert Message.objects.filter(pk=second.pk).due_now() == 0, "it waits for its turn alone"
    first = claim_one()
    assert first.payload == 1
    assert claimed() == []
    first.ack()
    assert claim_one() == second


def test_a_paused_group_stays_paused() -> None:
    message = in_group(1, delay=3600)
    Group.objects.pause(QUEUE, "a")
    assert Message.objects.all().due_now() == 1
    assert claimed() == []
    Group.objects.resume(QUEUE, "a")
    assert claim_one() == message


def test_one_that_its_groups_rate_holds_back_has_been_due_all_along() -> None:
    Group.objects.rate(QUEUE, "a", "1/h")
    Group.objects.limit(QUEUE, "a", 5)
    Message.objects.enqueue_many([Envelope(number, group="a") for number in range(3)], queue=QUEUE)
    assert Message.objects.delayed(QUEUE).exists()
    assert Message.objects.delayed(QUEUE).due_now() == 0
