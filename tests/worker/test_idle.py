"""An idle worker asks one question; what it hears of it does at once. By a simulated clock: nobody waits here."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError, connection

from django_dbqueue import flow
from django_dbqueue.claims import claim
from django_dbqueue.claims.claim import RESCAN_SECONDS
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.databases import server_of
from django_dbqueue.insight.counter import Counter
from django_dbqueue.lifecycle import expired_streams, rescue
from django_dbqueue.liveness.dead_workers import RECHECK_AFTER
from django_dbqueue.models import Message, Worker
from django_dbqueue.models.fields import DbNow, clock
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.statuses import NEW, RUNNING
from django_dbqueue.worker.execution import Verdict
from django_dbqueue.worker.maintenance import CHECK_EVERY, CHECK_SOONER, SETTLED_FIRST, Maintenance
from django_dbqueue.worker.pace import FASTEST, LATELY, SHARE
from tests.factories import QUEUE, done, held, stuck, waiting
from tests.worker.clock import NOTICED, Clock, Turns, statements

pytestmark = pytest.mark.django_db(transaction=True)
SEVERAL_ROUNDS = 300
"""Seconds in which the housekeeping of each minute is done five times, or once more."""


@pytest.mark.parametrize("work", ["nothing", "delayed", "running", "others"])
def test_an_idle_worker_asks_at_most_three_statements_in_two_seconds_and_only_reads(idle: Turns, work: str) -> None:
    {
        "nothing": lambda: None,
        "delayed": lambda: [waiting(delay=3_600, priority=each) for each in (-3, 0, 7)],
        "running": lambda: [held(lease=3_600, priority=each) for each in (0, 7)],
        "others": lambda: waiting(queue="another"),
    }[work]()
    while Counter(DjangoSession("default")).turn():  # what has ended is counted, which is work
        pass
    idle.go_on(5 * CHECK_EVERY)  # it hears of priorities, one at a look
    with statements() as queries:
        idle.go_on(SEVERAL_ROUNDS)
    assert len(queries) <= 1.5 * SEVERAL_ROUNDS
    assert not [sql for sql in queries if any(verb in sql for verb in ("UPDATE", "INSERT INTO", "DELETE FROM"))]


def test_what_comes_to_an_idle_worker_is_claimed_within_a_second(idle: Turns) -> None:
    for priority in (0, 5, -5):
        message = waiting(priority=priority)
        assert idle.go_on(60, lambda: len(idle.holding)) <= NOTICED
        [delivery] = idle.holding.take_back()
        idle.holding.drop(delivery)
        assert delivery.message.pk == message.pk
        delivery.message.ack()
        idle.go_on(LATELY + 1)


def test_what_comes_soon_after_the_last_is_claimed_after_a_small_part_of_the_time_between(turns: Turns) -> None:
    waiting()
    turns.go_on(1, lambda: len(turns.holding))
    for idle_for in (0.05, 0.2, 1.0, 5.0):
        [delivery] = turns.holding.take_back()
        turns.holding.drop(delivery)
        delivery.message.ack()
        turns.go_on(idle_for)
        waiting()
        assert turns.go_on(60, lambda: len(turns.holding)) <= max(FASTEST, 1.1 * idle_for / SHARE) + 0.01


def test_a_notice_makes_it_check_at_once(idle: Turns) -> None:
    waiting()
    idle.feeder.hurry()
    idle.feed()
    assert len(idle.holding) == 1


def test_what_came_in_after_a_check_that_was_not_read_is_not_mistaken_for_absent(turns: Turns) -> None:
    turns.feeder.learn(-4.0, "single")  # handlers are quick, so that as many are fetched ahead as may be
    for _ in range(150):
        waiting()
    turns.go_on(1, lambda: len(turns.holding))
    assert turns.maintenance.idle_poll.awaits_work
    turns.clock.now += CHECK_EVERY
    turns.maintenance.run(turns.clock.now)
    turns.feed()  # enough is held
    for delivery in turns.holding.take_back():
        turns.holding.drop(delivery)
        delivery.message.ack()
    waiting()  # which the last of them has sent
    turns.feed()
    assert turns.feeder.empty_at is None, "--drain would end here"


def test_a_kind_of_consumers_that_was_not_queried_is_not_mistaken_for_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(Clock(monkeypatch), Consumer("lists", lambda _messages: None, batch=10))
    for _ in range(10):
        waiting(queue="lists")
    turns.feed()  # that is enough of those
    turns.clock.now += 1
    turns.feed()  # and of the others there is none
    for delivery in turns.holding.take_back():
        turns.holding.drop(delivery)
        delivery.message.ack()
    waiting()  # which the list has sent
    turns.feed()  # too soon to ask for the others once more
    assert not len(turns.holding)
    assert turns.feeder.empty_at is None, "--drain would end here"
    assert turns.go_on(60, lambda: len(turns.holding)) <= NOTICED


def test_what_an_ack_with_a_claim_lets_run_is_not_mistaken_for_absent(idle: Turns) -> None:
    with flow("a chain") as f:
        f.chain((QUEUE, 1), (QUEUE, 2))
    idle.feeder.hurry()
    idle.feed()
    [delivery] = idle.holding.take_back()
    idle.settler.add(delivery, Verdict("ack"), 0.0)
    idle.clock.now += RESCAN_SECONDS  # the next claim reads from the beginning
    idle.feeder.empty_at = None
    idle.feeder.hurry()
    idle.feed()
    assert Message.objects.done().count() == 1
    assert len(idle.holding) or idle.feeder.empty_at is None, "--drain would end here"


def test_a_queue_that_waits_for_its_resource_has_not_been_drained(idle: Turns) -> None:
    idle.feeder.empty_at = None
    idle.feeder.hurry()
    idle.feed(QUEUE)
    assert idle.feeder.empty_at is None, "--drain would end here"
    idle.feeder.hurry()
    idle.feed()
    assert idle.feeder.empty_at == idle.clock.now


def test_what_was_rescued_after_a_check_is_not_mistaken_for_absent(idle: Turns) -> None:
    idle.feeder.empty_at = None
    idle.clock.now += CHECK_EVERY
    stuck()
    idle.maintenance.run(idle.clock.now)
    assert not Message.objects.stuck().exists()
    idle.feed()
    assert len(idle.holding) or idle.feeder.empty_at is None, "--drain would end here"


def test_a_message_that_is_due_later_is_claimed_within_a_second_of_its_time(idle: Turns) -> None:
    message = waiting(delay=3_600)
    idle.go_on(10)
    assert len(idle.holding) == 0
    Message.objects.filter(pk=message.pk).update(available_at=DbNow())
    assert idle.go_on(60, lambda: len(idle.holding)) <= NOTICED


def test_an_expired_lease_is_rescued_within_a_second_at_whatever_priority(idle: Turns) -> None:
    for priority in (0, 9, -9, 3):
        message = stuck(priority=priority, max_reads=1)
        assert idle.go_on(60, lambda: not Message.objects.stuck().exists()) <= NOTICED
        assert Message.objects.dead().filter(pk=message.pk).exists()


def test_more_priorities_than_are_remembered_hide_no_message(idle: Turns) -> None:
    for priority in range(40):
        waiting(delay=3_600, priority=priority)
    idle.go_on(60)
    assert len(idle.holding) == 0
    waiting(priority=50)
    assert idle.go_on(60, lambda: len(idle.holding)) <= NOTICED


def test_a_priority_that_was_never_seen_is_claimed_from_within_a_second_though_reads_are_dear(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = claim.priorities_in_use

    def dear(*place: str) -> list[int]:
        turns.clock.now += 1.0
        return real(*place)

    monkeypatch.setattr(claim, "priorities_in_use", dear)
    waiting()
    turns.go_on(60, lambda: len(turns.holding))
    [delivery] = turns.holding.take_back()
    turns.holding.drop(delivery)
    delivery.message.ack()
    turns.go_on(0.1)
    waiting(priority=9)
    assert turns.go_on(60, lambda: len(turns.holding)) <= NOTICED


def test_what_fails_for_long_keeps_nothing_else_from_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def fail(*_: object) -> int:
        raise DatabaseError("no")

    stuck()
    monkeypatch.setattr(rescue, "rescue", fail)
    monkeypatch.setattr(expired_streams, "requeue_expired", lambda *_: called.append("streams"))
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    monkeypatch.setattr(type(maintenance.idle_poll), "saw_claims_given_up", True)
    with pytest.raises(DatabaseError):
        maintenance.run(0.0)
    maintenance.run(0.1)
    assert called == ["streams"]


# -- the dead are found soon ------------------------------------------------------------------------------------------

with_sessions = pytest.mark.skipif("sqlite" in connection.vendor, reason="SQLite has no sessions, and nobody to judge")


def worker_row(server: str, *, late_in: float) -> None:
    moment = clock("default") + timedelta(seconds=late_in)
    fields = {"host": "h", "pid": 1, "queues": QUEUE, "threads": 1, "conn_id": 2**31, "beat_every": 1}
    Worker.objects.create(id=7, server=server, late_at=moment, beat_at=moment - timedelta(seconds=1), **fields)


def here() -> str:
    with connection.cursor() as cursor:
        cursor.execute(server_of(connection).sessions.me().sql)
        return str(cursor.fetchone()[1])


@with_sessions
@pytest.mark.parametrize(("late_in", "wait"), [(30, CHECK_SOONER), (120, 60)])
def test_who_will_be_late_is_checked_half_a_second_later_and_else_the_next_check_is_soon_enough(
    late_in: float, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a minute lay between two looks: the database's clock goes on beside this test."""
    monkeypatch.setattr("django_dbqueue.worker.maintenance.CHECK_EVERY", 60)
    worker_row(here(), late_in=late_in)
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    maintenance.run(0.0)
    assert maintenance.until_next(0.0) == wait


@with_sessions
def test_who_is_late_and_gone_is_checked_again_soon_and_until_he_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker_row(here(), late_in=-60)
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    maintenance.run(0.0)
    assert maintenance.until_next(0.0) == pytest.approx(RECHECK_AFTER)
    monkeypatch.setattr("django_dbqueue.liveness.dead_workers.PERSISTS", 0.0)
    maintenance.run(RECHECK_AFTER)
    assert not Worker.objects.exists()
    maintenance.run(2 * RECHECK_AFTER)
    maintenance.run(2 * RECHECK_AFTER + CHECK_EVERY)
    assert maintenance.until_next(2 * RECHECK_AFTER + CHECK_EVERY) == pytest.approx(CHECK_EVERY)


def test_after_an_outage_leases_that_have_ended_are_left_to_the_supervisors_for_a_moment() -> None:
    message = stuck()
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    maintenance.hold_rescues(0.0)
    for now in (0.0, CHECK_EVERY, SETTLED_FIRST - 0.01):
        maintenance.run(now)
        assert Message.objects.get(pk=message.pk).status == RUNNING
    maintenance.run(SETTLED_FIRST + CHECK_EVERY)
    assert Message.objects.get(pk=message.pk).status == NEW


@with_sessions
def test_who_comes_back_is_suspected_no_more() -> None:
    worker_row(here(), late_in=-60)
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    maintenance.run(0.0)
    Worker.objects.update(late_at=DbNow() + timedelta(seconds=60))
    maintenance.run(RECHECK_AFTER)
    assert maintenance.until_next(RECHECK_AFTER) == pytest.approx(CHECK_EVERY)


def test_tidying_takes_no_lock_where_nothing_is_old(idle: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle.maintenance, "_tidy_at", idle.clock.now + 1)
    monkeypatch.setattr(idle.maintenance, "_count_at", float("inf"))
    done()
    with statements() as queries:
        idle.go_on(20)
    assert not [sql for sql in queries if "mutex" in sql or "FOR UPDATE" in sql]
    assert any("messageevent" in sql for sql in queries), "it has tidied"
