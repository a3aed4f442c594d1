"""A sleep: the message is suspended, uncharged, and woken once, by its time (P21)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue import InvalidStep, LeaseLost
from django_dbqueue.models import Message, Step, Waiter
from django_dbqueue.models.fields import DbNow, clock
from tests.factories import claim_one, claimed, held, let_end, row
from tests.steps.suspending import let_come, suspends

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


@transactional
def test_a_sleep_gives_the_read_back_and_is_due_when_it_has_ended() -> None:
    message = held(max_reads=2)
    message.nack(delay=0, error="a failure")
    message = claim_one()
    suspends(lambda: message.sleep("cool off", DAY))
    is_now = row(message)
    assert (is_now["status"], is_now["read_count"], is_now["crashes"], is_now["worker_id"]) == ("n", 1, 0, None)
    until = Step.objects.get().until
    assert is_now["available_at"] == is_now["due_at"] == until
    assert timedelta(hours=23) < until - clock("default") <= DAY
    assert message.settled
    assert claimed() == []


def test_a_sleep_that_has_ended_returns_and_is_not_slept_again() -> None:
    message = held()
    suspends(lambda: message.sleep("cool off", 3_600))
    message = let_come(message)
    message.sleep("cool off", 3_600)
    message.nack(delay=0)
    claim_one().sleep("cool off", 3_600)


def test_who_is_woken_too_early_sleeps_on_until_the_same_moment() -> None:
    message = held()
    suspends(lambda: message.sleep("cool off", 3_600))
    until = Step.objects.get().until
    assert Message.objects.filter(pk=message.pk).update(available_at=DbNow()) == 1
    suspends(lambda: claim_one().sleep("cool off", 3_600))
    assert (Step.objects.get().until, row(message)["available_at"]) == (until, until)


def test_a_sleep_of_no_time_goes_on_at_once() -> None:
    message = held()
    message.sleep("none", 0)
    assert (row(message)["status"], message.steps_done) == ("run", ("none",))


def test_a_sleep_is_done_when_it_has_ended() -> None:
    message = held()
    suspends(lambda: message.sleep("cool off", 60))
    assert message.steps_done == ()
    assert let_come(message).steps_done == ("cool off",)


def test_who_lost_the_claim_puts_nothing_to_sleep() -> None:
    message = held()
    let_end(message)
    Message.objects.rescue()
    before = row(message)
    with pytest.raises(LeaseLost):
        message.sleep("cool off", 60)
    with pytest.raises(LeaseLost):
        message.wait_for("paid:17")
    assert row(message) == before
    assert not Step.objects.exists()
    assert not Waiter.objects.exists()


def test_a_suspect_that_sleeps_is_none_any_more() -> None:
    message = held()
    let_end(message)
    Message.objects.rescue()
    message = claim_one()
    assert message.crashes == 1
    suspends(lambda: message.sleep("cool off", 60))
    assert row(message)["crashes"] == 0


@transactional
@pytest.mark.parametrize("call", [lambda m: m.sleep("s", 60), lambda m: m.wait_for("paid:17")], ids=["sleep", "wait"])
def test_in_a_transaction_it_is_refused_with_a_sentence(call: Callable[[Message], Any]) -> None:
    message = held()
    with transaction.atomic(), pytest.raises(InvalidStep, match=r"inside a transaction.*between steps"):
        call(message)
    with message.step("book"), pytest.raises(InvalidStep, match="inside a transaction"):
        call(message)
    with message.transaction(), pytest.raises(InvalidStep, match="inside a transaction"):
        call(message)


def test_in_a_batch_it_is_refused_with_a_sentence() -> None:
    message = held()
    message.in_batch = True
    with pytest.raises(InvalidStep, match=r"a batch consumer can't sleep: .* a queue and a consumer of their own"):
        message.sleep("cool off", 60)
    with pytest.raises(InvalidStep, match="a batch consumer can't wait: "):
        message.wait_for("paid:17")
    assert row(message)["status"] == "run"


@pytest.mark.parametrize("length", [-1, "1", None, float("inf")], ids=repr)
def test_a_length_that_is_none_is_refused(length: Any) -> None:
    message = held()
    with pytest.raises(InvalidStep, match=f"message {message.pk}, 'cool off': for_ must be"):
        message.sleep("cool off", length)
    if length is not None:
        with pytest.raises(InvalidStep, match="'paid:17': timeout must be"):
            message.wait_for("paid:17", length)


def test_a_name_means_one_thing() -> None:
    message = held()
    message.step("paid:17", lambda: None)
    message.nack(delay=0)
    message = claim_one()
    with pytest.raises(InvalidStep, match="remembers 'paid:17' as a step, not as a wait: give what is new a new name"):
        message.wait_for("paid:17")
