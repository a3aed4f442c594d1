"""What a worker does for those who wait, by a simulated clock; and what it does when a handler is suspended (P21)."""

from __future__ import annotations

import pytest

from django_dbqueue.models import Event, Message
from django_dbqueue.models.fields import DbNow
from tests.factories import QUEUE, held
from tests.steps.suspending import suspends
from tests.worker.clock import Clock, Turns

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_wakes_those_whose_emitter_died_within_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    message = held()
    suspends(lambda: message.wait_for("paid:17"))
    with monkeypatch.context() as patch:
        patch.setattr("django_dbqueue.steps.emitting.wake", lambda *_: None)
        Event.objects.emit("paid:17", 5)
    Event.objects.update(wake_from=DbNow())
    turns = Turns(Clock(monkeypatch))
    assert turns.go_on(70, lambda: len(turns.holding)) <= 63
    assert Message.objects.running(QUEUE).get().pk == message.pk
