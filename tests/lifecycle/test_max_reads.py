"""A message is delivered at most ``max_reads`` times, and then it is dead (P7)."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one, claimed, let_pass, row, waiting

pytestmark = pytest.mark.django_db


def deliveries(*, give_up_after: int, end: Any) -> int:
    """How often a message comes back, when each delivery ends like this."""
    for number in range(give_up_after):
        messages = Message.objects.claim(1, queue=QUEUE)
        if not messages:
            return number
        assert messages[0].read_count == number + 1
        end(messages[0])
    return give_up_after


def nack(message: Message) -> None:
    message.nack(error="failed")


def crash(message: Message) -> None:
    let_pass(message, 61)
    assert Message.objects.rescue(QUEUE) == 1


@pytest.mark.parametrize("end", [nack, crash])
@pytest.mark.parametrize("max_reads", [1, 3])
def test_after_max_reads_deliveries_the_message_is_dead(max_reads: int, end: Any) -> None:
    message = waiting(max_reads=max_reads, key="k")
    assert deliveries(give_up_after=10, end=end) == max_reads
    stored = row(message)
    assert (stored["status"], stored["available_at"], stored["live"]) == ("n", None, None)
    assert (stored["read_count"], stored["conn_id"], stored["worker_id"]) == (max_reads, None, None)
    assert stored["finished_at"] >= stored["claimed_at"]
    assert stored["error"]
    assert Message.objects.dead(QUEUE).get().is_dead
    assert claimed() == []


@pytest.mark.parametrize("end", [nack, crash])
def test_without_a_limit_a_message_comes_back_for_ever(end: Any) -> None:
    message = waiting(max_reads=0)
    assert deliveries(give_up_after=12, end=end) == 12
    assert (row(message)["read_count"], row(message)["max_reads"]) == (12, 0)
    assert Message.objects.dead(QUEUE).count() == 0


@override_settings(DBQUEUE={"DEFAULTS": {"max_reads": 4}, "QUEUES": {QUEUE: {"max_reads": 2, "lease": 33}}})
def test_a_limit_and_a_lease_that_were_not_given_come_from_the_settings_and_are_written_down() -> None:
    message = waiting()
    other = waiting(queue="other")
    claimed()
    Message.objects.claim(1, queue="other")
    assert (row(message)["max_reads"], row(message)["lease_seconds"]) == (2, 33)
    assert (row(other)["max_reads"], row(other)["lease_seconds"]) == (4, 60)


def test_a_release_is_not_charged() -> None:
    message = waiting(max_reads=1)
    for _ in range(5):
        claim_one().release()
    assert row(message)["read_count"] == 0
    claim_one().nack()
    assert Message.objects.dead(QUEUE).count() == 1


def test_a_message_whose_reads_were_spent_already_goes_to_the_dead_instead() -> None:
    spent = waiting(payload="spent", max_reads=2, key="k")
    waiting(payload="good")
    Message.objects.filter(pk=spent.pk).update(read_count=2)
    assert claimed() == ["good"]
    stored = row(spent)
    assert (stored["status"], stored["available_at"], stored["read_count"], stored["live"]) == (
        "n",
        None,
        2,
        None,
    )
    assert "ReadsSpent" in stored["error"]


def test_a_thousand_whose_reads_were_spent_hold_nothing_up() -> None:
    Message.objects.enqueue_many(range(1000), queue=QUEUE)
    Message.objects.update(read_count=5, max_reads=5)
    waiting(payload="good")
    assert claimed(1) == ["good"]
    assert Message.objects.dead(QUEUE).count() == 1000
