"""Moments of tasks with and without ``USE_TZ``: reckoned in UTC, shown as Django shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from django_dbqueue.models import Message, fields
from django_dbqueue.tasks.task_headers import EXPIRES
from django_dbqueue.testing import run_consumers
from tests.tasks.hearing import ENDS, hearing

pytestmark = pytest.mark.django_db(transaction=True)

BERLIN = ZoneInfo("Europe/Berlin")
TWICE = [datetime(2036, 10, 26, hour, 30, tzinfo=UTC) for hour in (0, 1)]
"""Half past two, and an hour later half past two again."""
SKIPPED = datetime(2037, 3, 29, 0, 59, 30, tzinfo=UTC)
"""Half a minute before two o'clock, after which it is three."""
MOMENTS = ("enqueued_at", "started_at", "last_attempted_at", "finished_at")


@pytest.fixture(params=[True, False], ids=["USE_TZ", "no USE_TZ"])
def use_tz(request: pytest.FixtureRequest, settings: Any) -> bool:
    """Whether Django's moments are aware."""
    settings.TIME_ZONE = "Europe/Berlin"
    settings.USE_TZ = request.param
    return bool(request.param)


@pytest.mark.parametrize("moment", [*TWICE, SKIPPED], ids=str)
def test_a_length_of_time_is_reckoned_in_utc_also_when_the_clocks_change(
    jobs: Any, use_tz: bool, moment: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(fields, "clock", lambda _using: moment)
        result = jobs.add.apply_async((1, 2), countdown=60, expires=timedelta(minutes=2))
    row = Message.objects.get()
    assert row.available_at == moment + timedelta(minutes=1)
    assert datetime.fromisoformat(row.headers[EXPIRES]) == moment + timedelta(minutes=2)
    shown = result.task.run_after
    assert timezone.is_aware(shown) == use_tz
    assert shown.astimezone(UTC) == row.available_at, "a naive one says by its fold which of the two it is"


def test_a_length_of_time_is_reckoned_by_the_clock_of_the_database(jobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(timezone, "now", lambda: SKIPPED)
        jobs.add.apply_async((1, 2), countdown=60, expires=120)
    row, now = Message.objects.get(), fields.clock("default")
    assert row.created_at <= row.available_at <= now + timedelta(minutes=1)
    assert row.available_at <= datetime.fromisoformat(row.headers[EXPIRES]) <= now + timedelta(minutes=2)


@pytest.mark.parametrize("moment", TWICE, ids=str)
def test_a_naive_moment_in_the_hour_that_the_clocks_repeat_is_the_one_of_its_fold(
    jobs: Any, settings: Any, moment: datetime
) -> None:
    settings.TIME_ZONE, settings.USE_TZ = "Europe/Berlin", False
    naive = moment.astimezone(BERLIN).replace(tzinfo=None)
    jobs.add.apply_async((1, 2), eta=naive, expires=naive)
    row = Message.objects.get()
    assert row.available_at == moment
    assert datetime.fromisoformat(row.headers[EXPIRES]) == moment


def test_a_result_shows_its_moments_as_django_does(jobs: Any, use_tz: bool) -> None:
    seen: list[Any] = []

    def note(task_result: Any, **_: Any) -> None:
        seen.append({name: getattr(task_result, name) for name in MOMENTS})

    with hearing(note, *ENDS):
        result = jobs.add.enqueue(1, 2)
        run_consumers("default")
    result.refresh()
    note(result)
    assert seen[0].pop("finished_at") is None
    for shown in seen:
        for name, moment in shown.items():
            assert timezone.is_aware(moment) == use_tz, name
            assert abs(timezone.now() - moment) < timedelta(minutes=10), name
    assert all(each["finished_at"] - each["started_at"] < timedelta(minutes=10) for each in seen[1:])


def test_a_failed_attempt_shows_when_the_first_one_began(jobs: Any, use_tz: bool) -> None:
    result = jobs.fail.enqueue()
    run_consumers("default", on_error="collect", with_delayed=True)
    result.refresh()
    assert result.attempts == 3
    assert result.started_at <= result.last_attempted_at <= result.finished_at
    assert timezone.is_aware(result.started_at) == use_tz
