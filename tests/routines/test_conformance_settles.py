"""One suite for both ways in: what a holder's verbs leave in the row is the same through Python and the routines."""

from __future__ import annotations

import pytest

from django_dbqueue.models import Message
from tests import factories
from tests.factories import QUEUE
from tests.routines.ways import BACK, DEAD, DONE, HELD, LEASE, Way, claimed, overdue, state


def test_ack_finishes_the_message(way: Way) -> None:
    held = claimed(way)
    assert way.ack(held)
    assert state(held.id) == DONE


def test_ack_forgets_the_error_and_the_crashes_and_frees_the_key(way: Way) -> None:
    message = Message.objects.enqueue("hello", queue=QUEUE, key="k")
    Message.objects.filter(pk=message.pk).update(crashes=2, error="was bad")
    [held] = way.claim(1, LEASE)
    assert way.ack(held)
    assert state(held.id) == DONE | {"key": "k", "key_hash": message.key_hash}


def test_nack_gives_the_message_back_where_it_stood(way: Way) -> None:
    held = claimed(way)
    factories.let_pass(Message.objects.get(pk=held.id), 3 * 3600)
    assert way.nack(held, None)
    before = {"created_at": "-3 h", "due_at": "-3 h", "claimed_at": "-3 h"}
    assert state(held.id) == BACK | before | {"available_at": "-3 h"}


def test_nack_with_a_delay_makes_it_due_then(way: Way) -> None:
    held = claimed(way)
    assert way.nack(held, 2 * 3600)
    assert state(held.id) == BACK | {"available_at": "+2 h", "due_at": "+2 h"}


def test_nack_forgets_the_crashes_and_keeps_the_error(way: Way) -> None:
    held = claimed(way)
    Message.objects.filter(pk=held.id).update(crashes=2, error="was bad")
    assert way.nack(held, None)
    assert state(held.id) == BACK | {"error": "was bad"}


@pytest.mark.parametrize("delay", [None, 3600])
def test_nack_of_the_last_read_is_the_death_of_the_message(way: Way, delay: float | None) -> None:
    held = claimed(way, max_reads=1)
    assert way.nack(held, delay)
    assert state(held.id) == DEAD | {"max_reads": 1}
    assert way.claim(1, LEASE) == []


def test_a_death_frees_the_key(way: Way) -> None:
    message = Message.objects.enqueue("hello", queue=QUEUE, key="k", max_reads=1)
    [held] = way.claim(1, LEASE)
    assert way.nack(held, None)
    assert state(held.id) == DEAD | {"max_reads": 1, "key": "k", "key_hash": message.key_hash}


def test_without_a_limit_a_nack_is_never_a_death(way: Way) -> None:
    held = claimed(way, max_reads=0)
    Message.objects.filter(pk=held.id).update(read_count=1_000_000)
    assert way.nack(held, None)
    assert state(held.id) == BACK | {"max_reads": 0, "read_count": 1_000_000}


def test_extend_moves_the_deadline_and_nothing_else(way: Way) -> None:
    held = claimed(way)
    assert way.extend(held, 3 * 3600)
    assert state(held.id) == HELD | {"available_at": "+3 h"}
    assert way.extend(held, None)
    assert state(held.id) == HELD


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_who_does_not_hold_the_claim_learns_it_and_changes_nothing(way: Way, verb: str) -> None:
    first = overdue(way)
    [second] = way.claim(1, LEASE)
    assert second.id == first.id
    before = factories.rows()
    do = {"ack": way.ack, "nack": lambda held: way.nack(held, 0), "extend": lambda held: way.extend(held, 60)}[verb]
    assert do(first) is False
    assert factories.rows() == before
    assert do(second) is True


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_what_is_settled_is_not_settled_again(way: Way, verb: str) -> None:
    held = claimed(way)
    assert way.ack(held)
    before = factories.rows()
    do = {"ack": way.ack, "nack": lambda held: way.nack(held, 0), "extend": lambda held: way.extend(held, 60)}[verb]
    assert do(held) is False
    assert factories.rows() == before
