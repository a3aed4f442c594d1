"""A lease is over or extended, and what is over its lease comes back by a rescue."""

from __future__ import annotations

import pytest

from django_dbqueue.envelope import LEAST_LEASE
from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one, claimed, dead, done, held, let_end, let_pass, row, rows, stuck, waiting

pytestmark = pytest.mark.django_db

# Rescue


def test_a_rescue_releases_what_has_an_expired_lease_charged_and_as_a_crash() -> None:
    message = stuck(key="k")
    due_at = row(message)["due_at"]
    assert Message.objects.rescue() == 1
    stored = row(message)
    assert (stored["status"], stored["read_count"], stored["crashes"], stored["live"]) == ("n", 1, 1, 1)
    assert (stored["conn_id"], stored["worker_id"], stored["finished_at"]) == (None, None, None)
    assert stored["available_at"] == stored["due_at"] == due_at
    assert stored["claim_token"] == message.claim_token
    assert "LeaseOver" in stored["error"]
    assert claim_one().pk == message.pk


def test_a_rescue_leaves_what_is_within_its_lease() -> None:
    message = held(lease=3600)
    let_pass(message, 3500)
    before = row(message)
    assert Message.objects.rescue() == 0
    assert row(message) == before


def test_a_rescue_leaves_all_that_does_not_run() -> None:
    for make in (waiting, done, dead):
        message = make(queue=make.__name__)
        let_pass(message, 1000)
    before = rows()
    assert Message.objects.rescue() == 0
    assert rows() == before


def test_a_rescue_is_of_one_queue_or_of_all() -> None:
    for name in ("a", "b", "c"):
        stuck(queue=name)
    assert Message.objects.rescue("b") == 1
    assert Message.objects.rescue() == 2
    assert Message.objects.rescue() == 0


def test_a_rescue_takes_more_than_one_batch_and_every_priority() -> None:
    Message.objects.enqueue_many(range(1100), queue=QUEUE)
    waiting(priority=5)
    let_end(*Message.objects.claim(1101, queue=QUEUE))
    assert Message.objects.rescue() == 1101


def test_a_claim_that_comes_back_short_rescues_and_asks_again() -> None:
    message = stuck(payload="stuck")
    waiting(payload="fresh")
    assert sorted(claimed(2)) == ["fresh", "stuck"]
    assert (row(message)["read_count"], row(message)["crashes"]) == (2, 1)


def test_a_claim_that_comes_back_full_rescues_nothing() -> None:
    message = stuck()
    waiting(payload="fresh")
    assert claimed(1) == ["fresh"]
    assert row(message)["status"] == "run"


def test_a_holder_that_settles_sets_the_crashes_to_zero() -> None:
    for verb in ("ack", "nack", "reject"):
        message = stuck(queue=verb)
        Message.objects.rescue(verb)
        again = claim_one(verb)
        assert again.crashes == 1
        getattr(again, verb)()
        assert row(message)["crashes"] == 0
    message = stuck(queue="release")
    Message.objects.rescue("release")
    claim_one("release").release()
    assert row(message)["crashes"] == 1  # a suspect stays one


# A lease of next to nothing


def test_a_lease_that_was_just_over_is_still_its_holders_who_may_be_first() -> None:
    message = stuck()
    assert Message.objects.stuck(QUEUE).get() == message
    message.ack()
    assert row(message)["status"] == "y"


def test_a_claim_with_the_shortest_lease_does_not_take_its_own_messages_twice() -> None:
    Message.objects.enqueue_many(range(3), queue=QUEUE)
    messages = Message.objects.claim(10, queue=QUEUE, lease=LEAST_LEASE)
    assert [(message.payload, message.read_count) for message in messages] == [(0, 1), (1, 1), (2, 1)]


def test_a_lease_is_extended_from_now_and_by_its_own_length_when_none_is_given() -> None:
    message = held(lease=300)
    let_pass(message, 200)
    message.extend(1000)
    assert 1000 <= (row(message)["available_at"] - row(message)["claimed_at"]).total_seconds() - 200 < 1060
    let_pass(message, 100)
    message.extend()
    assert 300 <= (row(message)["available_at"] - row(message)["claimed_at"]).total_seconds() - 300 < 360
    assert row(message)["status"] == "run"
    message.ack()


def test_a_lease_that_has_expired_may_be_extended_until_somebody_rescues() -> None:
    message = stuck()
    message.extend(60)
    assert Message.objects.rescue() == 0
    message.ack()


# The messages own lease


def test_a_messages_own_lease_goes_before_the_claims() -> None:
    waiting(lease=500)
    message = claim_one(lease=5)
    assert message.lease_seconds == row(message)["lease_seconds"] == 500
    assert abs((row(message)["available_at"] - row(message)["claimed_at"]).total_seconds() - 500) < 0.002
