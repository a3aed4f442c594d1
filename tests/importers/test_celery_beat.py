"""Which schedules of django-celery-beat become entries of the settings, and why others don't."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from django_dbqueue.schedules import declarations
from tests.commands.running import run
from tests.importers import layouts
from tests.importers.layouts import Clocked, Crontab, Interval, PeriodicTask, Solar, created

pytestmark = pytest.mark.django_db(transaction=True)
TABLES = (Solar, Interval, Clocked, Crontab, PeriodicTask)


@pytest.fixture(autouse=True)
def _tables(transactional_db: None) -> Iterator[None]:
    with created(*TABLES):
        yield


def periodic(name: str = "nightly", **fields: Any) -> None:
    if not {"crontab", "interval", "solar", "clocked"} & fields.keys():
        fields["crontab"] = Crontab.objects.create(minute="0", hour="3", timezone="Europe/Berlin")
    PeriodicTask.objects.create(**{"name": name, "task": "shop.tasks.report"} | fields)


def every(count: int, period: str) -> Any:
    return Interval.objects.create(every=count, period=period)


def entries(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = run("queue_import", "django-celery-beat", "--json", *arguments).document["schedules"]
    return found


def test_a_crontab_becomes_an_entry_that_the_settings_take() -> None:
    periodic("Report, nightly", args="[1]", kwargs='{"days": 2}')
    ended = run("queue_import", "django-celery-beat", "--queue", "clock")
    assert (ended.code, ended.err) == (0, "")
    printed = ast.literal_eval(ended.out.partition(" = ")[2])
    assert printed == {
        "Report-nightly": {
            "queue": "clock",
            "cron": "0 3 * * *",
            "timezone": "Europe/Berlin",
            "payload": {"task": "shop.tasks.report", "args": [1], "kwargs": {"days": 2}},
        }
    }
    with override_settings(DBQUEUE={"SCHEDULES": printed}):
        [plan] = declarations.of_settings()
    assert plan.cron.after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("interval", "cron"),
    [
        ((10, "seconds"), "*/10 * * * * *"),
        ((90, "seconds"), None),
        ((120, "seconds"), "*/2 * * * *"),
        ((7, "minutes"), None),
        ((15, "minutes"), "*/15 * * * *"),
        ((1, "hours"), "0 */1 * * *"),
        ((5, "hours"), None),
        ((24, "hours"), "0 0 * * *"),
        ((2, "days"), None),
        ((5, "microseconds"), None),
    ],
)
def test_an_interval_that_divides_a_minute_an_hour_or_a_day_is_carried_over(
    interval: tuple[int, str], cron: str | None
) -> None:
    periodic(interval=every(*interval))
    found = entries()
    assert [entry["cron"] for entry in found.values()] == ([] if cron is None else [cron])
    if cron is not None:
        [plan] = [declarations.read(name, entry) for name, entry in found.items()]
        start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=5)
        first = plan.cron.after(start)
        assert first is not None
        second = plan.cron.after(first)
        assert second is not None
        assert second - first == timedelta(**{interval[1]: interval[0]})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"enabled": False}, "It is disabled."),
        ({"one_off": True}, "It is due only once"),
        ({"task": "celery.backend_cleanup"}, "It deletes Celery's results"),
        ({"expires": timezone.now()}, "It expires"),
        ({"expire_seconds": 60}, "It expires"),
        ({"start_time": datetime(2098, 1, 1, tzinfo=UTC)}, "It begins later, at 2098-01-01T00:00:00+00:00"),
        ({"args": "{}"}, "Its arguments are not JSON"),
        ({"kwargs": "nonsense"}, "Its arguments are not JSON"),
        ({"args": "[" * 2_000 + "]" * 2_000}, "Its arguments are not JSON"),
    ],
)
def test_what_a_schedule_has_not_is_a_reason(fields: dict[str, Any], why: str) -> None:
    periodic("other")
    periodic(**fields)
    ended = run("queue_import", "django-celery-beat", "--json")
    [reason] = ended.document["reasons"]
    assert (ended.code, reason["name"], [*ended.document["schedules"]]) == (1, "nightly", ["other"])
    assert reason["why"].startswith(why)


def test_sun_clock_and_both_kinds_of_days_are_reasons() -> None:
    periodic("sun", solar=Solar.objects.create(event="sunset", latitude=52, longitude=13))
    periodic("once", clocked=Clocked.objects.create(clocked_time=timezone.now()))
    periodic("both", crontab=Crontab.objects.create(day_of_month="13", day_of_week="fri"))
    periodic("wrong", crontab=Crontab.objects.create(minute="61"))
    ended = run("queue_import", "django-celery-beat")
    assert ended.code == 1
    for text in (
        "Not carried over: sun. It goes by the sun",
        "Not carried over: once. It is due only once",
        "Not carried over: both. It names days of the month and of the week",
        "Not carried over: wrong. '61 * * * *' is not a cron expression",
    ):
        assert text in ended.err


def test_a_start_that_is_past_means_nothing() -> None:
    periodic(start_time=timezone.now() - timedelta(days=1))
    assert len(entries()) == 1


def test_names_that_become_one_are_kept_apart() -> None:
    periodic("a b")
    periodic("a/b")
    last = PeriodicTask.objects.get(name="a/b").pk
    assert [*entries()] == ["a-b", f"a-b-{last}"]


def test_none_is_dropped_for_a_name_that_another_one_was_given() -> None:
    for name in ("a b", "a-b"):
        periodic(name)
    last = PeriodicTask.objects.get(name="a-b").pk
    periodic(f"a b-{last}")
    assert len(entries()) == 3


def test_nothing_is_changed_and_no_schedules_are_shown() -> None:
    assert run("queue_import", "django-celery-beat").code == 3
    periodic()
    before = list(PeriodicTask.objects.values())
    entries()
    assert list(PeriodicTask.objects.values()) == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("django-celery-beat", "--limit", "1"), "--limit can't be used with django-celery-beat."),
        (("django-celery-beat", "--queue", "a b"), "'a b' is not a queue name"),
        (("django-q2", "--queue", "a"), "--queue goes with django-celery-beat only."),
    ],
)
def test_options_that_mean_nothing_are_refused(arguments: tuple[str, ...], text: str) -> None:
    ended = run("queue_import", *arguments)
    assert ended.code == 2
    assert text in ended.err


def test_a_table_that_is_not_there_is_named() -> None:
    with layouts.hidden(Interval):
        ended = run("queue_import", "django-celery-beat")
    assert ended.code == 1
    assert "has no table django_celery_beat_intervalschedule" in ended.err
