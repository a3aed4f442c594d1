"""A wait: the message is suspended, uncharged, and woken once, by its event (P21)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue.models import Event, Message, Waiter
from django_dbqueue.models.fields import DbNow, clock
from django_dbqueue.statements.steps_sql import GRACE
from django_dbqueue.states.table import PARKED_AT
from django_dbqueue.steps import suspension
from tests.factories import QUEUE, claim_one, claimed, held, row
from tests.lifecycle.rollback import rolled_back
from tests.steps.suspending import is_ready, suspends

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


@transactional
def test_a_wait_without_a_timeout_is_parked_and_found_by_no_claim() -> None:
    message = held()
    suspends(lambda: message.wait_for("paid:17"))
    assert row(message)["available_at"] == PARKED_AT
    assert row(message)["due_at"] < clock("default") + timedelta(seconds=GRACE + 1)
    assert claimed() == []
    assert row(message)["read_count"] == 0


@transactional
def test_an_event_that_was_there_before_the_wait_is_returned_at_once() -> None:
    assert Event.objects.emit("paid:17", {"amount": 5})
    message = held()
    assert message.wait_for("paid:17") == {"amount": 5}
    assert row(message)["status"] == "run"
    message.nack(delay=0)
    Event.objects.all().delete()
    assert claim_one().wait_for("paid:17") == {"amount": 5}, "it is remembered as the message's own"


@transactional
def test_an_emit_after_the_wait_wakes_it_once() -> None:
    message, other = held(), held()
    suspends(lambda: message.wait_for("paid:17"))
    suspends(lambda: other.wait_for("paid:18"))
    assert Event.objects.emit("paid:17", 5)
    assert is_ready(message)
    assert not is_ready(other)
    message = claim_one()
    assert message.wait_for("paid:17") == 5
    assert Waiter.objects.count() == 1
    message.nack(delay=3_600)
    assert not Event.objects.emit("paid:17", 6)
    assert not is_ready(message), "it waits for its next attempt, and not for the event"


@transactional
def test_a_retry_is_not_woken_by_an_event_for_which_it_waited_before() -> None:
    message = held()
    suspends(lambda: message.wait_for("paid:17"))
    Message.objects.filter(pk=message.pk).update(available_at=DbNow())
    claim_one().nack(delay=3_600, error="it failed before it came to its wait")
    Event.objects.emit("paid:17", 5)
    assert not is_ready(message)


@transactional
@pytest.mark.parametrize(
    ("emits", "status"),
    [
        pytest.param("before the check", "n", id="between the commit of the wait and its check"),
        pytest.param("after the check", "n", id="between the check and the parking"),
        pytest.param("after the check", "run", id="not told of the waiter, since it checked before the wait's commit"),
    ],
)
def test_an_emit_during_a_wait_wakes_it(emits: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message = held()
    value_of = suspension._value

    def emit() -> None:
        if row(message)["status"] == status:
            Event.objects.emit("paid:17", 5)

    def read_and_emit(steps: Any, event: str) -> Any:
        if emits == "before the check":
            emit()
        found = value_of(steps, event)
        if emits == "after the check":
            emit()
        return found

    monkeypatch.setattr(suspension, "_value", read_and_emit)
    suspends(lambda: message.wait_for("paid:17"))
    assert is_ready(message)
    assert claim_one().wait_for("paid:17") == 5


@transactional
def test_a_handler_that_died_before_its_check_is_delivered_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    message = held()
    monkeypatch.setattr(suspension, "_value", _dies_at_the_second())
    with pytest.raises(KeyboardInterrupt):
        message.wait_for("paid:17")
    monkeypatch.undo()
    until = row(message)["available_at"] - clock("default")
    assert timedelta() < until <= timedelta(seconds=GRACE)


def _dies_at_the_second() -> Callable[..., Any]:
    calls = []

    def value(*_: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    return value


@transactional
def test_an_emit_that_is_rolled_back_wakes_none_and_leaves_the_name_free() -> None:
    message = held()
    suspends(lambda: message.wait_for("paid:17"))
    with rolled_back():
        assert Event.objects.emit("paid:17", 5)
    assert not is_ready(message)
    with transaction.atomic():
        assert Event.objects.emit("paid:17", 6)
        assert not is_ready(message), "woken after the commit"
    assert is_ready(message)
    assert claim_one().wait_for("paid:17") == 6


@transactional
def test_the_first_emit_wins() -> None:
    assert Event.objects.emit("paid:17", 5)
    assert not Event.objects.emit("paid:17", 6)
    assert held().wait_for("paid:17") == 5


@transactional
def test_an_expired_event_is_none_and_its_name_is_free() -> None:
    assert Event.objects.emit("paid:17", 5, keep_for=3_600)
    Event.objects.update(expires_at=DbNow())
    message = held()
    suspends(lambda: message.wait_for("paid:17"))
    assert Event.objects.emit("paid:17", 6)
    assert claim_one().wait_for("paid:17") == 6
    assert Event.objects.get().expires_at > clock("default") + timedelta(days=29)


@transactional
def test_many_wait_for_one_event() -> None:
    messages = [held() for _ in range(5)]
    for message in messages:
        suspends(lambda message=message: message.wait_for("open"))
    Event.objects.emit("open")
    assert [message.wait_for("open") for message in Message.objects.claim(9, queue=QUEUE)] == [None] * 5


@transactional
def test_more_than_one_update_holds_are_all_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_dbqueue.steps.emitting.BATCH", 2)
    messages = [held() for _ in range(5)]
    for message in messages:
        suspends(lambda message=message: message.wait_for("open"))
    Event.objects.emit("open")
    assert all(map(is_ready, messages))


def test_events_that_collations_take_for_alike_are_all_different() -> None:
    for name in ("Ä", "ä", "a", "A"):
        assert Event.objects.emit(name, name)
