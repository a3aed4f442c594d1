"""Where a schedule stands: from when on it counts, whose word holds, when it ends, and what comes of missed times."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from django_dbqueue.models import Message, Schedule
from django_dbqueue.models.fields import clock
from django_dbqueue.worker.timetable import CATCH_UP
from tests.schedules.timetables import (
    ALSO_HOURLY,
    AS_FAR,
    HOURLY,
    NEVER_NOW,
    Worker,
    hourly,
    last_check_was,
    plan,
    sent,
    stands,
)

pytestmark = pytest.mark.django_db


# Beginning, changing, ending


def test_a_new_schedule_begins_now_and_fires_nothing_of_the_past() -> None:
    before = clock("default")
    worker = Worker(plan())
    for _ in range(3):
        worker.check()
    row = stands()
    assert before <= row.last_due <= clock("default")
    assert (row.queue, row.cron, row.timezone, row.last_message_id) == ("tests", HOURLY, "UTC", None)
    assert sent() == []


def test_of_two_workers_that_add_it_at_once_the_slower_one_changes_nothing() -> None:
    Schedule.objects.begin(plan(), declared_at=clock("default"))
    row = stands()
    Schedule.objects.begin(plan(queue="other"), declared_at=clock("default"))
    assert (stands().last_due, stands().queue) == (row.last_due, "tests")


@pytest.mark.parametrize("change", [{"cron": ALSO_HOURLY}, {"timezone": "Asia/Kolkata"}])
def test_a_changed_schedule_starts_over_and_fires_nothing_of_the_past(change: dict[str, str]) -> None:
    Worker(plan()).check()
    last_check_was(timedelta(hours=5))
    before = clock("default")
    worker = Worker(plan(**change))
    for _ in range(3):
        worker.check()
    row = stands()
    assert (row.cron, row.timezone) == (change.get("cron", HOURLY), change.get("timezone", "UTC"))
    assert before <= row.last_due <= clock("default")
    assert sent() == []


def test_another_queue_payload_or_policy_is_no_other_schedule() -> None:
    Worker(plan()).check()
    since = last_check_was(timedelta(hours=5))
    worker = Worker(plan(queue="other", payload={"new": 1}, missed="all"))
    worker.check()
    worker.check()
    assert sent() == hourly(since, clock("default"))
    assert {(message.queue, message.payload["new"]) for message in Message.objects.all()} == {("other", 1)}
    assert stands().queue == "other"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"queue": "other"}, "another queue in"),
        ({"payload": {"new": 1}}, "another payload, key or policy"),
        ({"payload": Decimal("1.50")}, "another payload, key or policy"),
        ({"key": "one at a time"}, "another payload, key or policy"),
        ({"missed": "skip"}, "another payload, key or policy"),
        ({"cron": ALSO_HOURLY, "queue": "other"}, "another queue, cron in"),
    ],
)
def test_what_two_versions_enqueue_is_not_up_to_which_of_them_checks(
    change: dict[str, Any], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    older = Worker(plan())
    older.check()
    newer = Worker(plan(**change))
    newer.check()
    since = last_check_was(timedelta(hours=2))
    for _ in range(2):
        older.check()
    assert (sent(), stands().last_due) == ([], since)
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert named in warning
    assert "restart this worker" in warning
    newer.check()
    assert stands().last_due > since


def test_of_two_versions_the_one_that_was_started_later_has_the_word() -> None:
    older = Worker(plan())
    older.check()
    newer = Worker(plan(cron=ALSO_HOURLY))
    newer.check()
    begun = stands()
    for _ in range(3):
        older.check()
        newer.check()
    assert (stands().cron, stands().last_due) == (ALSO_HOURLY, begun.last_due)
    last_check_was(timedelta(hours=3))
    older.check()
    assert sent() == []
    newer.check()
    [due] = sent()
    assert due.minute == AS_FAR


def test_the_older_version_has_the_word_again_when_the_newer_one_is_gone() -> None:
    older, newer = Worker(plan()), Worker(plan(cron=ALSO_HOURLY), declared_at=clock("default") + timedelta(seconds=1))
    newer.check()
    older.check()
    assert stands().cron == ALSO_HOURLY
    Schedule.objects.update(seen_at=clock("default") - timedelta(seconds=181))
    older.check()
    assert stands().cron == HOURLY


def test_whoever_declares_the_same_later_strengthens_it() -> None:
    first = Worker(plan())
    between = Worker(plan(cron=ALSO_HOURLY))
    last = Worker(plan())
    first.check()
    last.check()
    between.check()
    assert stands().cron == HOURLY


def test_a_living_schedule_is_confirmed_once_a_minute_by_all_workers_together() -> None:
    worker, other = Worker(plan()), Worker(plan(), declared_at=clock("default") - timedelta(hours=1))
    worker.check()
    worker.check()
    seen = stands().seen_at
    other.check()
    assert stands().seen_at == seen
    Schedule.objects.update(seen_at=clock("default") - timedelta(seconds=61))
    stale = stands().seen_at
    other.check()
    assert stands().seen_at > stale


def test_a_schedule_that_is_no_longer_declared_fires_no_more_and_is_forgotten_after_a_month() -> None:
    Worker(plan(), plan("kept")).check()
    for name in ("s", "kept"):
        last_check_was(timedelta(hours=5), name)
    worker = Worker(plan("kept"))
    worker.check()
    assert (len(sent("kept")), sent("s")) == (1, [])
    Schedule.objects.forget()
    assert Schedule.objects.count() == 2
    Schedule.objects.filter(pk="s").update(seen_at=clock("default") - timedelta(days=31))
    Schedule.objects.forget()
    assert Schedule.objects.get().name == "kept"


# Missed


def test_of_missed_times_the_latest_is_enqueued_once() -> None:
    worker = Worker(plan())
    worker.check()
    since = last_check_was(timedelta(days=3))
    worker.check()
    worker.check()
    assert sent() == [hourly(since, clock("default"))[-1]]


def test_all_missed_times_are_enqueued_in_order_up_to_a_bound() -> None:
    worker = Worker(plan(missed="all"))
    worker.check()
    since = last_check_was(timedelta(hours=50))
    worker.check()
    assert sent() == hourly(since, clock("default"))
    Message.objects.all().drop_all("clear")
    Message.objects.all().purge()
    since = last_check_was(timedelta(days=365))
    worker.check()
    worker.check()
    assert sent() == hourly(since, clock("default"))[-CATCH_UP:]


def test_skipped_times_are_not_made_up_for_and_the_next_one_comes() -> None:
    worker = Worker(plan(cron=NEVER_NOW, missed="skip"))
    worker.check()
    last_check_was(timedelta(days=5 * 366))
    worker.check()
    worker.check()
    assert sent() == []
    assert stands().last_due > clock("default") - timedelta(days=4 * 366)
    minutely = Worker(plan("m", cron="* * * * *", missed="skip"))
    minutely.check()
    last_check_was(timedelta(hours=1), "m")
    minutely.check()
    [due] = sent("m")
    assert timedelta(0) <= clock("default") - due < timedelta(seconds=120)


def test_what_was_missed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(plan())
    worker.check()
    since = last_check_was(timedelta(hours=3))
    worker.check()
    first = hourly(since, clock("default"))[0]
    assert f"schedule s missed due times from {first.isoformat()} on; the latest was enqueued" in caplog.text
