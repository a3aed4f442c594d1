"""What still runs after it was cancelled has its child replaced; not a list that goes on with its other messages."""

from __future__ import annotations

import pytest

from django_dbqueue.worker.board import Board
from django_dbqueue.worker.cancellations import Cancellations
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.interruption import Call
from tests.worker.test_batches import deliveries

pytestmark = [pytest.mark.once, pytest.mark.django_db]

GRACE = 2.0


def test_a_list_is_given_up_a_grace_after_the_last_of_its_messages_was_cancelled() -> None:
    holding, replaced = Holding(Board(10)), list[int]()
    watch = Cancellations(holding, GRACE, lambda: replaced.append(1))
    first, second = given = deliveries(2, batch=2)
    holding.keep(*given)
    _begin(given)
    first.cancelled_at = 100.0
    watch.run(1_000.0)
    assert (replaced, first.abandoned) == ([], False)
    second.cancelled_at = 1_001.0
    watch.run(1_001.0 + GRACE / 2)
    assert replaced == []
    watch.run(1_001.0 + GRACE)
    assert replaced
    assert (first.abandoned, second.abandoned) == (True, True)


def test_what_was_swallowed_is_raised_again_at_the_next_check() -> None:
    holding = Holding(Board(10))
    watch = Cancellations(holding, GRACE, lambda: None)
    [one] = given = deliveries(1)
    holding.keep(*given)
    _begin(given)
    one.call.cancel, interrupted = (lambda: interrupted.append(1)), list[int]()
    one.cancelled_at = 100.0
    one.call.interrupt()
    watch.run(100.5)
    assert interrupted == [1]
    one.call.is_swallowed = True
    watch.run(101.5)
    watch.run(102.5)
    assert interrupted == [1, 1]


def _begin(given: list[Delivery]) -> None:
    call = Call(given)
    for each in given:
        each.started_at, each.call = 1.0, call
