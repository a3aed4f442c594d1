"""Article 004's acknowledge race: whoever comes too late, or for a key that was used again, changes nothing."""

from __future__ import annotations

import pytest

from django_dbqueue import LeaseLost
from django_dbqueue.models import Message
from tests.concurrency.steps import meet
from tests.factories import let_pass, row, rows
from tests.systems.contacts import FIVE_MINUTES, KEY, KIND, acquire, must_acquire, push

pytestmark = pytest.mark.django_db(transaction=True)


def refused(message: Message) -> bool:
    """Whether an acknowledgement changes nothing, and says so."""
    before = rows()
    with pytest.raises(LeaseLost):
        message.ack()
    assert rows() == before
    return True


def test_race_1_the_timeout_passed_and_another_has_it() -> None:
    push()
    slow = must_acquire()
    let_pass(slow, FIVE_MINUTES + 1)
    other = must_acquire()
    assert other.pk == slow.pk
    assert refused(slow)
    other.ack()
    assert row(other)["status"] == "y"
    assert refused(slow)


def test_race_1_the_timeout_passed_and_no_other_came() -> None:
    push()
    slow = must_acquire()
    let_pass(slow, FIVE_MINUTES + 1)
    slow.ack()
    assert acquire() is None


def test_race_1_the_other_failed_too_and_it_waits_again() -> None:
    push()
    slow = must_acquire()
    let_pass(slow, FIVE_MINUTES + 1)
    must_acquire().nack(error="failed, too")
    assert refused(slow)
    must_acquire().ack()


@pytest.mark.parametrize("is_claimed", [False, True])
@pytest.mark.parametrize("end", ["acked by another", "dropped", "rejected"])
def test_race_2_the_key_was_used_again(end: str, *, is_claimed: bool) -> None:
    push()
    slow = must_acquire()
    if end == "dropped":
        Message.objects.drop(KIND, KEY)
    else:
        let_pass(slow, FIVE_MINUTES + 1)
        other = must_acquire()
        other.ack() if end == "acked by another" else other.reject("no such contact")
    new = push({"name": "Another Alex"})
    assert (new.outcome, new.pk != slow.pk) == ("created", True)
    if is_claimed:
        new = must_acquire()
    assert refused(slow)
    if not is_claimed:
        new = must_acquire()
    assert new.payload == {"name": "Another Alex"}
    new.ack()


def test_race_2_the_content_was_updated_while_it_was_processed() -> None:
    push()
    slow = must_acquire()
    assert push({"name": "Alexandra"}, on_conflict="update").outcome == "updated"
    assert refused(slow)
    new = must_acquire()
    assert (new.pk, new.payload) == (slow.pk, {"name": "Alexandra"})
    assert refused(slow)
    new.ack()


@pytest.mark.parametrize("first_is_ack", [True, False])
def test_an_acknowledgement_and_an_update_at_the_same_moment_have_one_winner(*, first_is_ack: bool) -> None:
    push()
    holder = must_acquire()

    def update() -> Message:
        return push({"name": "Alexandra"}, on_conflict="update")

    if first_is_ack:
        met = meet(holder.ack, update, waits=True)
        assert (met.first, met.second.outcome) == (None, "created")
        assert row(holder)["status"] == "y"
    else:
        met = meet(update, holder.ack, waits=True)
        assert met.first.outcome == "updated"
        assert isinstance(met.second, LeaseLost)
    assert must_acquire().payload == {"name": "Alexandra"}


def test_an_acknowledgement_that_is_sent_twice_is_refused_and_spares_the_next_message_of_the_key() -> None:
    push()
    message = must_acquire()
    message.ack()
    new = push()
    assert refused(message)
    assert acquire() == new
