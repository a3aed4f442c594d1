"""Lists for people: in the order that their page says, and no longer than asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_dbqueue.envelope import hash_of_key
from django_dbqueue.insight.first_ids import first_ids, ids_of_keys
from django_dbqueue.models import Message, StreamClaim
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.ranges_in_use import ranges_in_use
from tests.factories import MessageFactory, dead, done, held, let_pass, stuck, waiting
from tests.streams.conftest import (
    Query,
    query,  # noqa: F401 - a fixture
)

pytestmark = pytest.mark.django_db(transaction=True)


def listed(state: str, *, limit: int = 100) -> list[int]:
    return first_ids(DjangoSession("default"), state, ranges_in_use(DjangoSession("default")), limit=limit)


def test_queues_come_in_their_order_and_high_priorities_and_the_soonest_first() -> None:
    late, low, high = waiting(queue="b"), waiting(queue="b", priority=-1), waiting(queue="b", priority=1)
    early, first = waiting(queue="b"), waiting(queue="a")
    let_pass(early, 60)
    waiting(queue="b", delay=60)
    assert listed("ready") == [each.pk for each in (first, high, early, late, low)]
    assert listed("ready", limit=3) == [first.pk, high.pk, early.pk]


@pytest.mark.parametrize(("state", "make"), [("dead", dead), ("done", done)])
def test_of_the_dead_and_the_done_the_latest_come_first(state: str, make: Callable[..., Message]) -> None:
    made = [make(queue=queue) for queue in ("a", "b", "a", "a")]
    assert listed(state) == [made[place].pk for place in (3, 2, 0, 1)]
    assert listed(state, limit=2) == [made[3].pk, made[2].pk]


def test_a_few_messages_among_many_queues_are_found_in_their_order() -> None:
    for number in range(60):
        waiting(queue=f"q{number:02}")
    found = [stuck(queue=f"s{number}") for number in range(3)]
    assert listed("stuck", limit=9_000) == [each.pk for each in found]
    assert listed("stuck", limit=2) == [each.pk for each in found[:2]]
    assert len(listed("ready", limit=500)) == 60
    assert listed("running") == listed("dead") == listed("done") == []


def test_what_an_overdue_claim_of_a_stream_holds_is_listed_as_stuck(
    query: Callable[..., Query],  # noqa: F811
) -> None:
    message, other = MessageFactory(), held(queue="other")
    query().next()
    assert set(listed("running")) == {message.pk, other.pk}
    StreamClaim.objects.update(lease_until=DbNow())
    assert listed("running") == [other.pk]
    assert listed("stuck") == [message.pk]


def test_messages_with_a_key_are_found_in_each_queue_the_latest_first_with_the_live_one() -> None:
    finished = [done(queue="a", key="k").pk for _ in range(3)]
    live, other = waiting(queue="a", key="k").pk, waiting(queue="b", key="k").pk
    waiting(queue="b", key="K")
    hashes = [hash_of_key(queue, "k") for queue in ("none", "b", "a")]
    assert ids_of_keys(DjangoSession("default"), hashes, limit=10) == [other, live, *reversed(finished)]
    assert ids_of_keys(DjangoSession("default"), hashes, limit=3) == [other, live, finished[-1]]
    assert ids_of_keys(DjangoSession("default"), [], limit=3) == []
