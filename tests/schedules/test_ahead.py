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
from tests.schedules.timetables import ALSO_HOURLY, HOURLY, Worker, hourly, last_look_was, plan, sent, stands

pytestmark = pytest.mark.django_db
MONTH = timedelta(days=30)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
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


def test_a_schedule_that_stands_a_month_ahead_is_told_once_and_fires_nothing(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(plan())
    worker.look()
    last_look_was(-MONTH)
    with caplog.at_level(logging.ERROR, "django_dbqueue"):
        for _ in range(3):
            worker.look()
    [line] = told(caplog)
    assert "schedule s will not fire before" in line
    assert "queue_doctor --set-back-schedules" in line
    assert sent() == []


def test_one_that_stands_ahead_by_seconds_is_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(plan())
    worker.look()
    last_look_was(-timedelta(seconds=50))
    worker.look()
    assert told(caplog) == []
    assert levels() == ["ok"]


def test_the_doctor_finds_it_and_sets_it_back_and_it_fires_each_later_time_once() -> None:
    workers = [Worker(plan(), plan("other")), Worker(plan(), plan("other"))]
    for worker in workers:
        worker.look()
    right = stands("other").last_due
    ahead = last_look_was(-MONTH)
    assert levels() == ["problem"]
    code, said = doctor("--set-back-schedules")
    assert f"The schedule s was set back from {ahead.isoformat()}" in said
    assert levels() == ["ok"]
    assert abs(clock("default") - stands().last_due) < timedelta(seconds=60)
    assert stands("other").last_due == right, "who stands right stays"
    since = last_look_was(timedelta(hours=1))
    for worker in workers * 2:
        worker.look()
    assert sent() == hourly(since, clock("default"))
    before = stands().last_due
    assert "set back" not in doctor("--set-back-schedules")[1]
    assert stands().last_due == before
    assert code in {0, 1}


def test_the_doctor_changes_nothing_unless_it_is_told_to() -> None:
    Worker(plan()).look()
    ahead = last_look_was(-MONTH)
    code, said = doctor()
    assert code == 1
    assert f"The schedule s will not fire before {ahead.isoformat()}" in said
    assert stands().last_due == ahead


def test_a_worker_that_was_started_in_that_moment_has_not_the_word_over_later_ones() -> None:
    Worker(plan(cron=HOURLY)).look()
    Schedule.objects.update(declared_at=clock("default") + MONTH, seen_at=clock("default") + MONTH)
    later = Worker(plan(cron=ALSO_HOURLY))
    later.look()
    assert stands().cron == ALSO_HOURLY
    assert stands().declared_at < clock("default") + timedelta(minutes=1)


def test_a_worker_that_was_started_in_that_moment_counts_as_started_when_the_clock_is_right_again() -> None:
    early = Worker(plan(cron=HOURLY), declared_at=clock("default") + MONTH)
    early.look()
    assert stands().declared_at is not None
    early.look()
    later = Worker(plan(cron=ALSO_HOURLY))
    later.look()
    early.look()
    early.look()
    assert stands().cron == ALSO_HOURLY


def test_what_was_declared_in_that_moment_is_declared_anew_when_it_is_over() -> None:
    worker = Worker(plan())
    worker.look()
    Schedule.objects.update(declared_at=clock("default") + MONTH, seen_at=clock("default") + MONTH)
    worker.look()
    standing = stands()
    assert standing.declared_at < clock("default") + timedelta(minutes=1)
    assert standing.seen_at < clock("default") + timedelta(minutes=1)


if settings.TEST_DATABASE in {"mysql", "mariadb"}:  # only there a session can have a clock of its own

    def test_a_clock_that_goes_ahead_for_a_moment_leaves_a_schedule_that_is_found(
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        worker = Worker(plan())
        worker.look()
        with connection.cursor() as cursor:
            cursor.execute("SET timestamp = UNIX_TIMESTAMP() + 30 * 86400")
            worker.look()
            cursor.execute("SET timestamp = DEFAULT")
        worker.look()
        [early] = sent()
        assert early > clock("default") + timedelta(days=29)
        assert len(told(caplog)) == 1
        doctor("--set-back-schedules")
        since = last_look_was(timedelta(hours=1))
        worker.look()
        assert sent() == [early, *hourly(since, clock("default"))]
