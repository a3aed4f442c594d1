"""An idle worker notices within a second that a queue is paused, and that its pause has ended. By a simulated clock."""

from __future__ import annotations

import pytest

from django_dbqueue.models import Queue
from tests.factories import QUEUE, let_pause_end, waiting
from tests.worker.clock import NOTICED, Turns, statements

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_pause_and_its_end_are_noticed_within_a_second(idle: Turns) -> None:
    Queue.objects.pause(QUEUE)
    assert idle.go_on(60, lambda: idle.maintenance.idle_poll.closed) <= NOTICED
    waiting()
    idle.go_on(30)
    assert len(idle.holding) == 0
    Queue.objects.resume(QUEUE)
    assert idle.go_on(60, lambda: len(idle.holding)) <= NOTICED


def test_when_a_pause_has_ended_it_claims_within_a_second_and_has_queried_no_more_for_it(idle: Turns) -> None:
    def count() -> int:
        with statements() as found:
            idle.go_on(30)
        of_pauses = [sql for sql in found if Queue._meta.db_table + " " in sql]
        assert of_pauses
        assert not [sql for sql in found if "UPDATE" in sql and Queue._meta.db_table in sql]
        return len(of_pauses)

    waiting()
    Queue.objects.pause(QUEUE)
    count()
    without = count()
    Queue.objects.pause(QUEUE, for_=3_600)
    assert abs(count() - without) <= 1  # thirty seconds are not a whole number of looks
    assert len(idle.holding) == 0
    let_pause_end()
    assert idle.go_on(60, lambda: len(idle.holding)) <= NOTICED
