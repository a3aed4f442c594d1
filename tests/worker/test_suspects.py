"""A message with which a process died runs alone: what was claimed beside it is released before a thread sees it."""

from __future__ import annotations

import pytest

from django_dbqueue.models import Message
from django_dbqueue.worker.delivery import Delivery
from tests.factories import waiting
from tests.worker.clock import Clock, Turns

pytestmark = pytest.mark.django_db(transaction=True)


def test_no_thread_is_offered_what_was_claimed_with_a_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    first, suspect, last = (waiting().pk for _ in range(3))
    Message.objects.filter(pk=suspect).update(crashes=1)
    turns = Turns(Clock(monkeypatch))
    for _ in range(50):  # handlers so quick that one claim takes all three
        turns.feeder.learn(0.0, "single")
    offered: list[int] = []

    def offer(*deliveries: Delivery) -> None:  # a thread that begins at once would leave nothing to take back
        offered.extend(each.message.pk for each in deliveries)

    monkeypatch.setattr(turns.holding, "offer", offer)
    released = turns.feed()
    assert sorted(each.message.pk for each in released) == [first, last]
    assert offered == []
    turns.holding.drop(*released)
    assert turns.feed() == []
    assert offered == [suspect]
