"""Which queues have rows, and in which statuses and priorities."""

from __future__ import annotations

import pytest

from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.ranges_in_use import Range, queues_in_use, ranges_in_use
from tests.factories import dead, done, stuck, waiting

pytestmark = pytest.mark.django_db


def test_an_empty_table_has_no_queues_and_no_ranges() -> None:
    assert queues_in_use(DjangoSession("default")) == []
    assert ranges_in_use(DjangoSession("default")) == []
    assert ranges_in_use(DjangoSession("default"), ["a", "b", "c", "d"]) == []


def test_queues_are_named_once_each_in_the_order_of_their_bytes() -> None:
    for queue in ("b", "B", "a", "a_1", "a-1", "a.1", "b"):
        waiting(queue=queue)
    done(queue="only-done")
    dead(queue="only-dead")
    assert queues_in_use(DjangoSession("default")) == ["B", "a", "a-1", "a.1", "a_1", "b", "only-dead", "only-done"]


def test_ranges_are_those_that_have_rows_highest_priority_first() -> None:
    for priority in (-100, 100, 0):
        waiting(queue="a", priority=priority)
    dead(queue="a", priority=3)
    stuck(queue="b", priority=4)
    done(queue="c", priority=-1)
    of_a = [Range("a", "n", priority) for priority in (100, 3, 0, -100)]
    of_b, of_c = Range("b", "run", 4), Range("c", "y", -1)
    assert ranges_in_use(DjangoSession("default")) == [*of_a, of_b, of_c]
    assert ranges_in_use(DjangoSession("default"), ["c", "a"]) == [*of_a, of_c]
    assert ranges_in_use(DjangoSession("default"), ["none", "c", "of", "these", "b"]) == [of_b, of_c]
    assert ranges_in_use(DjangoSession("default"), []) == []
