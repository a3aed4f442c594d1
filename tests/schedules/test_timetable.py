"""Once per due time, by the database's clock: what a worker does with a schedule each time it looks."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from django_dbqueue import LeaseLost
from django_dbqueue.models import Message, Queue, Schedule
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.timetable import CHECK_EVERY, RECHECK_AFTER, Timetable
from tests.concurrency.steps import meet
from tests.factories import claim_one
from tests.patience import patience
from tests.schedules.timetables import HOURLY, NEVER_NOW, Worker, hourly, last_check_was, plan, sent, stands

pytestmark = pytest.mark.django_db


# Due


def test_what_is_due_is_enqueued_once_whoever_checks() -> None:
    first, second = Worker(plan(payload={"a": 1})), Worker(plan(payload={"a": 1}))
    first.check()
    since = last_check_was(timedelta(hours=1))
    for worker in (first, second, first, second):
        worker.check()
    [due] = sent()
    assert [due] == hourly(since, clock("default"))
    [message] = Message.objects.all()
    assert (message.queue, message.key, message.payload) == ("tests", None, {"a": 1})
    assert message.headers == {"dbqueue.schedule": "s", "dbqueue.due": due.isoformat()}
    assert (stands().last_due, stands().last_message_id) == (due, message.pk)
    assert message.due_at >= due


def test_it_is_enqueued_again_at_the_next_due_time_though_the_message_was_done_in_between() -> None:
    worker = Worker(plan())
    worker.check()
    for ended in range(3):
        last_check_was(timedelta(hours=1))
        worker.check()
        worker.check()
        assert len(sent()) == ended + 1
        claim_one().ack()


def test_who_was_overtaken_between_his_read_and_his_move_sends_nothing() -> None:
    Schedule.objects.begin(plan(), declared_at=clock("default"))
    last_check_was(timedelta(hours=3))
    seen_by_both = Schedule.objects.by_name([plan()])["s"]
    times = plan().cron.last_ones(9, after=seen_by_both.last_due, until=seen_by_both.db_now)
    assert Schedule.objects.fire(plan(), seen_by_both, times=times[:2], upto=times[1]) is True
    # the slower one saw one due time more, and may not send the first two again
    assert Schedule.objects.fire(plan(), seen_by_both, times=times, upto=times[-1]) is False
    assert sent() == times[:2]
    seen = Schedule.objects.by_name([plan()])["s"]
    assert Schedule.objects.fire(plan(), seen, times=times[2:], upto=times[-1]) is True
    assert sent() == times


def test_a_check_between_due_times_asks_the_database_nothing(django_assert_num_queries: Any) -> None:
    timetable = Timetable(session_of("default"), (plan(cron=NEVER_NOW),), clock("default"))
    timetable.run(0.0)
    begun = RECHECK_AFTER
    timetable.run(begun)
    with django_assert_num_queries(0):
        for tenth in range(int(CHECK_EVERY * 10)):
            timetable.run(begun + tenth / 10)
    with django_assert_num_queries(1):
        timetable.run(begun + CHECK_EVERY)
    with django_assert_num_queries(0):
        Timetable(session_of("default"), (), clock).run(0.0)


def test_a_worker_wakes_for_the_next_check_and_not_for_none() -> None:
    assert Timetable(session_of("default"), (), clock("default")).until_next(0.0) == float("inf")
    timetable = Timetable(session_of("default"), (plan(cron=NEVER_NOW),), clock("default"))
    timetable.run(0.0)
    assert timetable.until_next(0.25) == RECHECK_AFTER - 0.25
    timetable.run(RECHECK_AFTER)
    assert timetable.until_next(RECHECK_AFTER) == CHECK_EVERY


def test_a_paused_queue_gets_its_messages_and_they_wait() -> None:
    worker = Worker(plan())
    worker.check()
    Queue.objects.pause("tests", reason="maintenance")
    last_check_was(timedelta(hours=1))
    worker.check()
    assert len(sent()) == 1
    assert Message.objects.claim(1, queue="tests") == []


def test_with_a_key_a_due_time_passes_while_the_message_before_it_is_live() -> None:
    worker = Worker(plan(key="one at a time"))
    worker.check()
    last_check_was(timedelta(hours=1))
    worker.check()
    first = claim_one()
    since = last_check_was(timedelta(hours=1))
    worker.check()
    assert len(sent()) == 1
    assert (stands().last_due, stands().last_message_id) == (hourly(since, clock("default"))[-1], first.pk)
    first.ack()
    with pytest.raises(LeaseLost):
        first.ack()
    last_check_was(timedelta(hours=1))
    worker.check()
    assert len(sent()) == 2


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_hangs_in_the_middle_of_its_move_hangs_no_other() -> None:
    """On SQLite whoever writes has the whole file, so that there is no beside."""
    Schedule.objects.begin(plan(), declared_at=clock("default"))
    last_check_was(timedelta(hours=1))

    def check() -> float:
        return Timetable(session_of("default"), (plan(),), clock("default"))._check()

    met = meet(check, check, waits=False)
    assert met.first == 0.0
    assert met.second == (CHECK_EVERY if connection.vendor == "sqlite" else RECHECK_AFTER)
    assert len(sent()) == 1


# The database's clock


class OtherClocks:
    """Everybody but the database is wrong by so much."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wrong_by: timedelta) -> None:
        now, monotonic = time.time, time.monotonic
        offset = wrong_by.total_seconds()
        monkeypatch.setattr(time, "time", lambda: now() + offset)
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + offset)
        monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + wrong_by)


@pytest.mark.parametrize("wrong_by", [timedelta(hours=7), timedelta(hours=-7)], ids=str)
def test_a_worker_whose_clock_is_wrong_by_hours_fires_neither_early_nor_late(
    wrong_by: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    OtherClocks(monkeypatch, wrong_by)
    worker = Worker(plan(missed="all"))
    worker.check()
    since = stands().last_due
    assert abs(since - clock("default")) < timedelta(minutes=1)
    worker.check()
    assert sent() == []
    since = last_check_was(timedelta(hours=2))
    worker.check()
    assert sent() == hourly(since, clock("default"))


def test_a_database_clock_that_is_set_back_fires_nothing_twice() -> None:
    worker = Worker(plan())
    worker.check()
    later = clock("default") + timedelta(hours=1)
    Schedule.objects.update(last_due=later)
    for _ in range(3):
        worker.check()
    assert (sent(), stands().last_due) == ([], later)


# Both or none


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_rolled_back", [False, True])
def test_of_two_workers_that_move_at_once_one_sends_and_the_other_neither_sends_nor_waits(is_rolled_back: bool) -> None:
    Schedule.objects.begin(plan(), declared_at=clock("default"))
    last_check_was(timedelta(hours=1))
    seen_by_both = Schedule.objects.by_name([plan()])["s"]
    due = plan().cron.latest(after=seen_by_both.last_due, until=seen_by_both.db_now)
    assert due is not None

    def fire() -> bool:
        return Schedule.objects.fire(plan(), seen_by_both, times=[due], upto=due)

    met = meet(fire, fire, then_roll_back=is_rolled_back, waits=False)
    assert met.first is True
    assert is_rolled_back or not met.second
    if is_rolled_back and not met.second:  # somebody was at it; SQLite has no somebody beside a writer
        assert sent() == []
        assert fire() is True
    assert sent() == [due]


@pytest.mark.django_db(transaction=True)
def test_an_error_at_any_statement_leaves_neither_the_move_nor_a_message() -> None:
    Schedule.objects.begin(plan(), declared_at=clock("default"))
    since = last_check_was(timedelta(hours=1))
    for fails_at in range(1, 50):
        worker, statements = Worker(plan()), 0

        def fail(execute: Any, sql: str, params: Any, many: Any, context: Any, *, at: int = fails_at) -> Any:
            nonlocal statements
            statements += 1
            if statements == at:
                raise DatabaseError("the connection broke")
            return execute(sql, params, many, context)

        try:
            with connection.execute_wrapper(fail):
                worker.check()
        except DatabaseError:
            assert (stands().last_due, sent()) == (since, [])
        else:
            break
    assert fails_at > 3
    assert sent() == [stands().last_due]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("cron", [HOURLY, ""], ids=["declared", "added"])
def test_kill_9_before_and_after_each_statement_leaves_both_or_none(cron: str, worker_env: dict[str, str]) -> None:
    """A real process looks once and is killed at a statement; then the next one, until it comes through."""
    if cron:
        Schedule.objects.begin(plan(missed="all"), declared_at=clock("default"))
    else:
        Schedule.objects.add("s", queue="tests", cron=HOURLY, timezone="UTC", missed="all")
    since = last_check_was(timedelta(hours=2))
    kills = 0
    for place in range(100):
        looker = subprocess.run(
            [sys.executable, "-m", "tests.schedules.looker", cron, str(place)],
            env=worker_env,
            check=False,
            timeout=patience(120),
        )
        assert looker.returncode in {0, -signal.SIGKILL}
        moved = stands().last_due != since
        assert len(sent()) == (len(hourly(since, stands().last_due)) if moved else 0)
        if moved:
            break
        kills += 1
    assert kills >= 4  # the look, BEGIN, the UPDATE, the INSERT, COMMIT: before and after
    subprocess.run(
        [sys.executable, "-m", "tests.schedules.looker", cron, "1000"],
        env=worker_env,
        check=True,
        timeout=patience(120),
    )
    assert sent() == hourly(since, clock("default"))
