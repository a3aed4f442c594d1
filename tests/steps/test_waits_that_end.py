"""Waits that time out, that an emitter left behind, or whose event or message is gone (P21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue import EventTimedOut
from django_dbqueue.models import Event, Message, Step, Waiter
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.steps.emitting import wake_left_behind
from django_dbqueue.steps.step_rows import StepWalk
from tests.factories import claim_one, held, row
from tests.steps.suspending import is_ready, let_come, suspends

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)

# Timeouts


@transactional
def test_a_wait_that_times_out_raises_and_is_remembered() -> None:
    message = held()
    suspends(lambda: message.wait_for("paid:17", timeout=3_600))
    until = Step.objects.get().until
    assert row(message)["available_at"] == row(message)["due_at"] == until
    message = let_come(message)
    with pytest.raises(EventTimedOut, match=f"message {message.pk} has waited for event 'paid:17' as long as"):
        message.wait_for("paid:17", timeout=3_600)
    assert not Waiter.objects.exists()
    Event.objects.emit("paid:17", 5)
    message.nack(delay=0)
    message = claim_one()
    with pytest.raises(EventTimedOut):
        message.wait_for("paid:17", timeout=3_600)
    assert message.wait_for("paid:17", name="once more") == 5


@transactional
def test_an_event_that_came_in_time_counts_even_if_the_message_is_late() -> None:
    message = held()
    suspends(lambda: message.wait_for("paid:17", timeout=3_600))
    Event.objects.emit("paid:17", 5)
    Step.objects.update(until=DbNow())
    assert claim_one().wait_for("paid:17", timeout=3_600) == 5


def test_a_timeout_of_nothing_asks_once() -> None:
    message = held()
    with pytest.raises(EventTimedOut):
        message.wait_for("paid:17", timeout=0)
    assert row(message)["status"] == "run"


@transactional
def test_who_is_woken_otherwise_waits_on_until_the_same_moment() -> None:
    message = held()
    suspends(lambda: message.wait_for("paid:17", timeout=3_600))
    until = Step.objects.get().until
    Message.objects.filter(pk=message.pk).update(available_at=DbNow())
    suspends(lambda: claim_one().wait_for("paid:17", timeout=3_600))
    assert (row(message)["available_at"], Waiter.objects.count()) == (until, 1)
    Event.objects.emit("paid:17", 5)
    assert claim_one().wait_for("paid:17", timeout=3_600) == 5


# Who was left behind, and what is over


@transactional
def test_who_was_left_behind_by_an_emitter_that_died_is_woken_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    message = held()
    suspends(lambda: message.wait_for("paid:17"))
    with monkeypatch.context() as patch:
        patch.setattr("django_dbqueue.steps.emitting.wake", lambda *_: None)
        Event.objects.emit("paid:17", 5)
    assert not is_ready(message)
    assert wake_left_behind(session_of("default"), limit=10) == 0, "its emitter may still be on its way"
    Event.objects.update(wake_from=DbNow())
    assert wake_left_behind(session_of("default"), limit=10) == 1
    assert is_ready(message)
    assert wake_left_behind(session_of("default"), limit=10) == 0


@transactional
def test_an_emitter_that_did_its_work_leaves_nothing_to_do() -> None:
    Event.objects.emit("paid:17", 5)
    assert Event.objects.get().wake_from is None


def test_what_was_kept_long_enough_is_forgotten_and_nothing_else() -> None:
    Event.objects.emit("old", 5)
    Event.objects.update(expires_at=DbNow())
    Event.objects.emit("new", 5)
    StepWalk(session_of("default")).turn(limit=100)
    assert Event.objects.get().name == "new"


@transactional
def test_steps_whose_message_is_gone_are_walked_over_and_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_dbqueue.steps.step_rows.BATCH", 3)
    gone, there = [held() for _ in range(4)], held()
    for message in [*gone, there]:
        for name in ("a", "b"):
            message.step(name, lambda: None)
        suspends(lambda message=message: message.wait_for("paid:17"))
    Message.objects.filter(pk__in=[message.pk for message in gone]).delete()
    walk = StepWalk(session_of("default"))
    for _ in range(10):
        walk.turn(limit=100)
    assert set(Step.objects.values_list("message_id", flat=True)) == {there.pk}
    assert Waiter.objects.get().message_id == there.pk


def test_where_there_is_nothing_a_turn_is_one_read() -> None:
    with CaptureQueriesContext(connection) as queries:
        assert not StepWalk(session_of("default")).turn(limit=100)
    [query] = queries
    assert query["sql"].startswith("SELECT")


@transactional
def test_the_archive_takes_waits_along() -> None:
    message = held()
    suspends(lambda: message.wait_for("paid:17"))
    assert Message.objects.filter(pk=message.pk).drop_all("unwanted") == 1
    assert Message.objects.archive(older_than=0) == 1
    assert (Step.objects.count(), Waiter.objects.count()) == (0, 0)
