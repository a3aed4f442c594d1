"""How deep queues are, and an overview of all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_dbqueue import Envelope
from django_dbqueue.insight.overview import known_queues, overview
from django_dbqueue.models import Message, Queue, Worker
from django_dbqueue.models.fields import DbNow, clock
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.states.counts import Capped
from django_dbqueue.states.depths import depths
from tests.factories import QUEUE, dead, done, held, let_pass, stuck, waiting

pytestmark = pytest.mark.django_db
STATES = ("ready", "delayed", "waiting", "running", "stuck", "dead", "done")


def one_of_each(queue: str = QUEUE) -> dict[str, Message]:
    made = {"stuck": stuck(queue=queue)}
    let_pass(made["stuck"], 1)
    made |= {"running": held(queue=queue), "dead": dead(queue=queue), "done": done(queue=queue)}
    made |= {"delayed": waiting(queue=queue, delay=3600), "ready": waiting(queue=queue, group="g")}
    return made | {"waiting": waiting(queue=queue, group="g")}


def counts(queue: str = QUEUE, **options: Any) -> dict[str, int]:
    return depths(DjangoSession("default"), [queue], **options)[queue].counts


def test_each_state_is_counted_by_itself_and_other_queues_are_not() -> None:
    one_of_each()
    one_of_each("other")
    waiting(priority=7)
    waiting(priority=-7)
    assert counts(states=STATES) == {
        "ready": 3,
        "delayed": 1,
        "waiting": 1,
        "running": 1,
        "stuck": 1,
        "dead": 1,
        "done": 1,
    }
    assert counts("nobody") == {"ready": 0, "delayed": 0, "waiting": 0, "running": 0, "stuck": 0, "dead": 0}
    assert {
        name: depth.counts["ready"] for name, depth in depths(DjangoSession("default"), [QUEUE, "other"]).items()
    } == {
        QUEUE: 3,
        "other": 1,
    }


def test_a_count_stops_at_its_cap_and_reports_it() -> None:
    Message.objects.enqueue_many([Envelope(n, priority=n % 3) for n in range(12)], queue=QUEUE)
    assert str(counts(cap=11)["ready"]) == "11+"
    assert str(counts(cap=12)["ready"]) == "12"
    assert str(Capped(10_001, 10_000)) == "10,000+"


def test_many_ranges_are_counted_by_few_statements(django_assert_max_num_queries: Any) -> None:
    for number in range(30):
        waiting(queue=f"q{number}")
    with django_assert_max_num_queries(30 * 3 + 5):  # a look for the priorities of each queue, and the counts
        found = depths(DjangoSession("default"), [f"q{number}" for number in range(30)])
    assert {depth.counts["ready"] for depth in found.values()} == {1}


def test_the_oldest_ready_message_is_the_one_due_first_whatever_its_priority() -> None:
    waiting(priority=9)
    old = waiting(priority=-9)
    let_pass(old, 90)
    waiting(delay=3600)
    [found] = overview(session_of("default"), [QUEUE]).queues
    assert found.oldest_ready == Message.objects.get(pk=old.pk).available_at
    assert overview(session_of("default"), ["nobody"]).queues[0].oldest_ready is None


def test_the_overview_has_every_queue_that_is_known_and_who_serves_it() -> None:
    waiting(queue="emails")
    Queue.objects.pause("calls", by="ann", reason="line is down")
    beating(1, "emails,calls", threads=4)
    beating(2, "emails", threads=1)
    beating(3, "idle", threads=2)
    beating(4, "emails", threads=8, ago=timedelta(minutes=5))
    seen = overview(session_of("default"))
    assert [(each.name, each.queue.is_paused, each.workers, each.threads) for each in seen.queues] == [
        ("calls", True, 1, 4),
        ("emails", False, 2, 5),
        ("idle", False, 1, 2),
    ]
    assert known_queues(session_of("default")) == {"calls", "emails", "idle"}
    assert abs(seen.at - clock("default")) < timedelta(minutes=1)
    assert Queue.objects.filter(pk="emails").count() == 0  # looking makes no rows


def beating(number: int, queues: str, *, threads: int, ago: timedelta = timedelta()) -> None:
    worker = Worker.objects.create(id=number, host="host", pid=number, queues=queues, threads=threads)
    if ago:
        Worker.objects.filter(pk=worker.pk).update(beat_at=DbNow() - ago)
