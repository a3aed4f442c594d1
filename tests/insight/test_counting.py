"""What the workers count is what ended: once each, however it ended, wherever it stands by now."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.insight import counter
from django_dbqueue.insight.counter import Counter
from django_dbqueue.models import ALL_QUEUES, Message, MessageEvent, QueueMinute, QueueStatistic, StatisticProgress
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker.maintenance import COUNT_EVERY, Maintenance
from tests.factories import QUEUE, claim_one, dead, done, held, waiting
from tests.insight.passing import HOUR, begin, count, early_in_the_hour, ended_at, hours, let_pass, minutes

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = timedelta(minutes=1)
TEN = timedelta(minutes=10)


def totals(**changed: int) -> dict[str, int]:
    return dict.fromkeys(("messages", "failures", "retries", "dead", "waits", "runs"), 0) | changed


def only_events(message: Message, *kinds: str) -> None:
    MessageEvent.objects.all().delete()
    for kind in kinds:
        MessageEvent.objects.create(
            message_id=message.pk, queue=QUEUE, kind=kind, read_count=1, claimed_at=message.claimed_at
        )


def test_what_was_acked_is_counted_within_seconds_and_once() -> None:
    begin()
    done()
    done(queue="other")
    let_pass(MINUTE)
    for _ in range(3):
        count()
        assert minutes(QUEUE) == minutes("other") == totals(messages=1, waits=1, runs=1)
    assert minutes(ALL_QUEUES) == totals(messages=2, waits=2, runs=2)


def test_what_ended_just_before_a_worker_counted_is_counted_by_its_next_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("django_dbqueue.worker.maintenance.COUNT_SHARE", 0)  # however long the first count took
    begin()
    done()
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    maintenance.has_ended_something = True
    maintenance.run(0.0)  # a count stays a second behind the clock
    let_pass(MINUTE)
    maintenance.run(COUNT_EVERY - 1)  # before its minute is over
    assert minutes(QUEUE) == totals(messages=1, waits=1, runs=1)


def test_the_settled_count_takes_the_place_of_the_fresh_one() -> None:
    begin()
    done()
    let_pass(MINUTE)
    count()
    fresh = QueueMinute.objects.get(queue=QUEUE)
    let_pass(TEN)
    count()
    settled = QueueMinute.objects.get(queue=QUEUE)
    assert settled.pk != fresh.pk
    assert (settled.messages, settled.wait, settled.run) == (1, fresh.wait, fresh.run)


def test_failed_deliveries_and_retries_are_those_of_the_message_that_ended() -> None:
    begin()
    message = held()
    message.nack(delay=0)
    message = claim_one()
    message.nack(delay=0)
    claim_one().ack()
    let_pass(MINUTE)
    count()
    assert minutes(QUEUE) == totals(messages=1, failures=2, retries=2, waits=1, runs=1)


def test_deaths_are_counted_by_their_events() -> None:
    begin()
    message = dead()
    only_events(message, "failed", "died")
    let_pass(MINUTE)
    count()
    assert minutes(QUEUE) == totals(messages=1, failures=1, dead=1, waits=1, runs=1)
    let_pass(TEN)
    assert Message.objects.all().purge() == 1
    count()
    assert minutes(QUEUE) == totals(messages=1, failures=1, dead=1, waits=1, runs=1)


def test_a_message_that_died_was_requeued_and_died_again_has_died_twice() -> None:
    begin()
    message = dead()
    assert Message.objects.dead(QUEUE).requeue() == 1
    claim_one().reject("again")
    only_events(message, "died", "requeued", "rejected")
    let_pass(MINUTE)
    count()
    found = minutes(QUEUE)
    assert (found["messages"], found["dead"]) == (2, 2)


def test_a_dropped_message_is_counted_and_its_deliveries_were_failures() -> None:
    begin()
    held().nack(delay=3_600)
    assert Message.objects.all().drop_all("not wanted") == 1
    let_pass(MINUTE)
    count()
    assert minutes(QUEUE) == totals(messages=1, failures=1)


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_a_message_is_counted_once_whenever_it_is_archived(when: str) -> None:
    begin()
    done()
    done(priority=5)

    def archive(now: str) -> None:
        if now == when:
            assert Message.objects.archive(QUEUE, older_than=0) == 2

    archive("before")
    let_pass(MINUTE)
    count()
    assert minutes(QUEUE)["messages"] == 2
    archive("between")
    let_pass(TEN)
    count()
    archive("after")
    let_pass(TEN)
    count()
    assert minutes(QUEUE) == totals(messages=2, waits=2, runs=2)
    assert QueueMinute.objects.filter(shown=False).count() == 0


def test_what_was_committed_late_is_counted_up_to_five_minutes_later() -> None:
    begin()
    late, too_late = held(), held(queue="later")
    done()
    let_pass(4 * MINUTE)
    count()
    moment = clock("default") - 4 * MINUTE
    late.ack()
    ended_at(late, moment)  # as its transaction had it that is committed now
    let_pass(6 * MINUTE)
    count()
    assert minutes(QUEUE)["messages"] == 2
    too_late.ack()
    ended_at(too_late, moment - 6 * MINUTE)
    let_pass(MINUTE)
    count()
    assert minutes("later")["messages"] == 0


def test_an_hour_is_the_sum_of_its_minutes() -> None:
    begin()
    moment = early_in_the_hour()
    runs = [0.001 * number for number in range(1, 101)]
    for number, run in enumerate(runs):
        ended_at(done(), moment + timedelta(seconds=20 * number), wait=10 * run, run=run)
    ended_at(done(queue="other"), moment, wait=1, run=3)
    StatisticProgress.objects.update(settled_to=moment.replace(minute=0, second=0))
    count()
    [hour] = hours(QUEUE).values()
    assert hour.hour == moment.replace(minute=0, second=0)
    assert (hour.messages, hour.failures, hour.retries, hour.dead) == (100, 0, 0, 0)
    assert [hour.run_p50, hour.run_p95, hour.run_p99] == pytest.approx([0.050, 0.095, 0.099], rel=1 / 64)
    assert [hour.wait_p50, hour.wait_p95, hour.wait_p99] == pytest.approx([0.5, 0.95, 0.99], rel=1 / 64)
    [of_all] = hours(ALL_QUEUES).values()
    assert of_all.messages == 101
    assert of_all.run_p99 == pytest.approx(0.1, rel=1 / 64)


def test_after_a_pause_of_days_everything_is_made_up_for() -> None:
    begin()
    done()
    let_pass(timedelta(days=3))
    done()
    let_pass(timedelta(days=2))
    done()
    count()
    let_pass(HOUR)
    count()
    assert sum(row.messages for row in QueueStatistic.objects.filter(queue=QUEUE)) == 3
    assert sum(row.messages for row in QueueStatistic.objects.filter(queue=ALL_QUEUES)) == 3


@pytest.mark.parametrize("seconds", [0, 30])
def test_minutes_of_more_than_a_day_ago_are_removed_and_their_hours_stay(
    seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "SECONDS", seconds)
    begin()
    done()
    let_pass(HOUR)
    count()
    assert QueueMinute.objects.count() == 2
    let_pass(timedelta(hours=28))
    done()
    let_pass(MINUTE)
    count()
    assert QueueMinute.objects.count() == 2
    assert sum(row.messages for row in QueueStatistic.objects.filter(queue=QUEUE)) == 2


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_steps_of_few_rows_come_to_the_same(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "ROWS", rows)
    monkeypatch.setattr("django_dbqueue.insight.ended.PAGE", 2)
    begin()
    moment = early_in_the_hour()
    for number in range(12):
        ended_at(done(), moment + timedelta(milliseconds=700 * number))
    for _ in range(11):  # all in one moment
        ended_at(done(queue="other"), moment)
    StatisticProgress.objects.update(settled_to=moment.replace(minute=0, second=0))
    count()
    assert minutes(QUEUE) == totals(messages=12, waits=12, runs=12)
    assert minutes("other") == totals(messages=11, waits=11, runs=11)
    assert minutes(ALL_QUEUES)["messages"] == 23


def test_a_turn_ends_when_its_time_has_ended_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "SECONDS", 0)
    begin()
    moment = early_in_the_hour()
    for number in range(4):
        ended_at(done(), moment + number * MINUTE)
    StatisticProgress.objects.update(settled_to=moment.replace(minute=0, second=0))
    counting, turns = Counter(DjangoSession("default")), 1
    while counting.turn():
        turns += 1
    assert turns > 4
    assert minutes(QUEUE)["messages"] == 4


def test_the_first_count_ever_begins_with_the_hour_before_and_counts_it_whole() -> None:
    moment = early_in_the_hour()
    ended_at(done(), moment)
    ended_at(done(), moment - timedelta(hours=1))
    count()
    assert set(hours(QUEUE)) == {moment.replace(minute=0, second=0)}


def test_where_nothing_ended_nothing_is_written() -> None:
    waiting()
    count()
    before = StatisticProgress.objects.values().get()
    let_pass(TEN)
    count()
    assert StatisticProgress.objects.values().get() == before | {
        name: before[name] - TEN for name in ("fresh_to", "settled_to")
    }
    assert not QueueMinute.objects.exists()
    assert not QueueStatistic.objects.exists()


def test_a_worker_that_has_nothing_to_count_asks_little_and_writes_nothing() -> None:
    waiting()
    count()
    let_pass(TEN)
    with CaptureQueriesContext(connection) as queries:
        assert not Counter(DjangoSession("default")).turn()
    statements = [query["sql"] for query in queries]
    assert len(statements) <= 12, statements
    assert all(sql.lstrip("(").upper().startswith(("SELECT", "EXPLAIN", "WITH")) for sql in statements)


def test_a_worker_whose_fellow_has_just_counted_asks_once() -> None:
    done()
    count()
    with CaptureQueriesContext(connection) as queries:
        assert not Counter(DjangoSession("default")).turn()
    assert len(queries) == 1
