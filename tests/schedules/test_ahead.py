"""A server's clock that was ahead for a moment: the schedule stands ahead of it, and somebody has to say so."""

from __future__ import annotations

import logging
from datetime import timedelta
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from django_dbqueue.doctor.examination import examine
from django_dbqueue.models import Schedule
from django_dbqueue.models.fields import clock
from tests.schedules.timetables import ALSO_HOURLY, HOURLY, Worker, hourly, last_check_was, plan, sent, stands

pytestmark = pytest.mark.django_db
MONTH = timedelta(days=30)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "will not fire before" in record.getMessage()]


def doctor(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("queue_doctor", *arguments, stdout=out)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue()
    return 0, out.getvalue()


def levels() -> list[str]:
    return [finding.level for finding in examine() if finding.check == "schedules"]


def test_a_schedule_a_month_in_the_future_is_reported_once_and_fires_nothing(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(plan())
    worker.check()
    last_check_was(-MONTH)
    with caplog.at_level(logging.ERROR, "django_dbqueue"):
        for _ in range(3):
            worker.check()
    [line] = warnings(caplog)
    assert "schedule s will not fire before" in line
    assert "queue_doctor --set-back-schedules" in line
    assert sent() == []


def test_one_that_is_seconds_beyond_the_clock_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(plan())
    worker.check()
    last_check_was(-timedelta(seconds=50))
    worker.check()
    assert warnings(caplog) == []
    assert levels() == ["ok"]


def test_the_doctor_finds_it_and_sets_it_back_and_it_fires_each_later_time_once() -> None:
    workers = [Worker(plan(), plan("other")), Worker(plan(), plan("other"))]
    for worker in workers:
        worker.check()
    right = stands("other").last_due
    later = last_check_was(-MONTH)
    assert levels() == ["problem"]
    code, output = doctor("--set-back-schedules")
    assert f"The schedule s was set back from {later.isoformat()}" in output
    assert levels() == ["ok"]
    assert abs(clock("default") - stands().last_due) < timedelta(seconds=60)
    assert stands("other").last_due == right, "who stands right stays"
    since = last_check_was(timedelta(hours=1))
    for worker in workers * 2:
        worker.check()
    assert sent() == hourly(since, clock("default"))
    before = stands().last_due
    assert "set back" not in doctor("--set-back-schedules")[1]
    assert stands().last_due == before
    assert code in {0, 1}


def test_the_doctor_changes_nothing_unless_it_is_ordered_to() -> None:
    Worker(plan()).check()
    later = last_check_was(-MONTH)
    code, output = doctor()
    assert code == 1
    assert f"The schedule s will not fire before {later.isoformat()}" in output
    assert stands().last_due == later


def test_a_worker_that_was_started_in_that_moment_has_not_the_word_over_later_ones() -> None:
    Worker(plan(cron=HOURLY)).check()
    Schedule.objects.update(declared_at=clock("default") + MONTH, seen_at=clock("default") + MONTH)
    later = Worker(plan(cron=ALSO_HOURLY))
    later.check()
    assert stands().cron == ALSO_HOURLY
    assert stands().declared_at < clock("default") + timedelta(minutes=1)


def test_a_worker_that_was_started_in_that_moment_counts_as_started_when_the_clock_is_right_again() -> None:
    early = Worker(plan(cron=HOURLY), declared_at=clock("default") + MONTH)
    early.check()
    assert stands().declared_at is not None
    early.check()
    later = Worker(plan(cron=ALSO_HOURLY))
    later.check()
    early.check()
    early.check()
    assert stands().cron == ALSO_HOURLY


def test_what_was_declared_in_that_moment_is_declared_again_when_it_has_passed() -> None:
    worker = Worker(plan())
    worker.check()
    Schedule.objects.update(declared_at=clock("default") + MONTH, seen_at=clock("default") + MONTH)
    worker.check()
    stored = stands()
    assert stored.declared_at < clock("default") + timedelta(minutes=1)
    assert stored.seen_at < clock("default") + timedelta(minutes=1)


if settings.TEST_DATABASE in {"mysql", "mariadb"}:  # only there a session can have a clock of its own

    def test_a_clock_that_is_wrong_for_a_moment_leaves_a_schedule_that_is_found(
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        worker = Worker(plan())
        worker.check()
        with connection.cursor() as cursor:
            cursor.execute("SET timestamp = UNIX_TIMESTAMP() + 30 * 86400")
            worker.check()
            cursor.execute("SET timestamp = DEFAULT")
        worker.check()
        [early] = sent()
        assert early > clock("default") + timedelta(days=29)
        assert len(warnings(caplog)) == 1
        doctor("--set-back-schedules")
        since = last_check_was(timedelta(hours=1))
        worker.check()
        assert sent() == [early, *hourly(since, clock("default"))]
