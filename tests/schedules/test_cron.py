"""When an expression is due: in its zone, in both nights of the year, and however long nobody looked."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from django_dbqueue.exceptions import InvalidSchedule
from django_dbqueue.schedules.cron import Cron, read

pytestmark = pytest.mark.once
BERLIN = "Europe/Berlin"
SPRING = datetime(2020, 3, 28, 12, tzinfo=UTC), datetime(2020, 3, 30, 12, tzinfo=UTC)
"""Around the night in which Berlin's clocks go from 2:00 to 3:00, at 1:00 UTC of the 29th."""
AUTUMN = datetime(2020, 10, 24, 12, tzinfo=UTC), datetime(2020, 10, 26, 12, tzinfo=UTC)
"""Around the night in which they go from 3:00 to 2:00, at 1:00 UTC of the 25th."""


def due(cron: Cron, begin: datetime, end: datetime) -> list[datetime]:
    """As a worker finds them: each from the one before."""
    found = []
    while (moment := cron.after(found[-1] if found else begin)) is not None and moment <= end:
        found.append(moment)
    return found


def utc(moments: list[datetime]) -> list[str]:
    return [f"{moment:%d %H:%M}" for moment in moments]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["29 01:00", "30 00:30"]),  # 2:30 is not there, and due when the clocks have jumped, at 3:00
        ("0 3 * * *", ["29 01:00", "30 01:00"]),
        ("0 2,3 * * *", ["29 01:00", "30 00:00", "30 01:00"]),  # both fall together: once
        ("0 1 * * *", ["29 00:00", "29 23:00"]),
        (
            "0 */6 * * *",
            ["28 17:00", "28 23:00", "29 04:00", "29 10:00", "29 16:00", "29 22:00", "30 04:00", "30 10:00"],
        ),
    ],
)
def test_in_the_night_that_is_short_each_time_is_due_once(expression: str, expected: list[str]) -> None:
    assert utc(due(read(expression, BERLIN), *SPRING)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["25 00:30", "26 01:30"]),  # 2:30 comes twice, and is due the first time
        ("0 3 * * *", ["25 02:00", "26 02:00"]),
        ("15,45 2 * * *", ["25 00:15", "25 00:45", "26 01:15", "26 01:45"]),
    ],
)
def test_in_the_night_that_is_long_each_time_is_due_once(expression: str, expected: list[str]) -> None:
    assert utc(due(read(expression, BERLIN), *AUTUMN)) == expected


def test_a_schedule_that_begins_in_the_second_of_two_hours_does_not_fire_what_was_due_in_the_first() -> None:
    second_time_2_10 = datetime(2020, 10, 25, 1, 10, tzinfo=UTC)
    assert read("30 2 * * *", BERLIN).after(second_time_2_10) == datetime(2020, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize("night", [SPRING, AUTUMN])
@pytest.mark.parametrize("expression", ["*/20 * * * *", "* * * * *", "*/7 * * * * *"])
def test_what_is_due_every_so_often_goes_by_elapsed_time_in_both_nights(
    expression: str, night: tuple[datetime, datetime]
) -> None:
    assert due(read(expression, BERLIN), *night) == due(read(expression, "UTC"), *night)


def test_a_zone_moves_the_hour_and_utc_does_not() -> None:
    begin = datetime(2020, 7, 1, tzinfo=UTC)
    hours = {zone: read("0 3 * * *", zone).after(begin) for zone in ("UTC", BERLIN, "Asia/Kolkata", "America/New_York")}
    assert [f"{moment:%H:%M}" for moment in hours.values() if moment] == ["03:00", "01:00", "21:30", "07:00"]


def test_the_moment_that_it_starts_from_is_not_due_again() -> None:
    minutely, noon = read("* * * * *", "UTC"), datetime(2020, 7, 1, 12, tzinfo=UTC)
    assert minutely.after(noon) == noon + timedelta(minutes=1)
    assert minutely.after(noon - timedelta(microseconds=1)) == noon
    assert minutely.after(noon + timedelta(microseconds=1)) == noon + timedelta(minutes=1)


@pytest.mark.parametrize("zone", ["UTC", BERLIN, "America/New_York", "Asia/Kathmandu", "America/St_Johns"])
@pytest.mark.parametrize(
    "expression",
    ["* * * * * *", "*/7 * * * * *", "*/5 * * * *", "30 2 * * *", "15 1,2,3 * * *", "0 3 1 * *", "0 0 * * 1"],
)
def test_the_last_of_many_is_found_without_walking_them_all(expression: str, zone: str) -> None:
    cron, chance = read(expression, zone), random.Random(f"{expression} {zone}")
    for begin, _ in (SPRING, AUTUMN):
        until = begin + timedelta(seconds=chance.uniform(0, 5_000), microseconds=chance.randrange(10**6))
        for _ in range(4):
            walked = due(cron, begin, until)
            assert cron.latest(after=begin, until=until) == (walked[-1] if walked else None)
            assert cron.last_ones(5, after=begin, until=until) == walked[-5:]
            until += timedelta(seconds=chance.uniform(0, 5_000 if expression[0] == "*" else 500_000))


@pytest.mark.parametrize(
    "zone", [BERLIN, "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "America/St_Johns", "Asia/Kolkata"]
)
@pytest.mark.parametrize("expression", ["30 1 * * *", "45 1,2 * * *", "0 */2 * * *", "10 2 * * 0", "*/40 * * * * *"])
def test_what_is_due_does_not_depend_on_where_one_starts_from(expression: str, zone: str) -> None:
    """In zones whose clocks are changed by half an hour, by two hours, for a month of fasting, or not at all."""
    cron, chance = read(expression, zone), random.Random(f"{expression} {zone}")
    hours = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(365 * 24)]
    offsets = [hour.astimezone(ZoneInfo(zone)).utcoffset() for hour in hours]
    changes = [hour for hour, before, after in zip(hours[1:], offsets, offsets[1:], strict=False) if before != after]
    assert len(changes) == (0 if zone == "Asia/Kolkata" else 2)
    for change in changes or hours[:1]:
        begin, end = change - timedelta(hours=9), change + timedelta(hours=9)
        times = due(cron, begin, end)
        assert times == sorted(set(times))
        for _ in range(20):
            moment = begin + (end - begin) * chance.random()
            assert cron.after(moment) == next((each for each in times if each > moment), cron.after(end))


def test_years_of_missed_seconds_cost_nothing() -> None:
    cron, end = read("* * * * * *", BERLIN), datetime(2020, 7, 1, tzinfo=UTC)
    began = time.process_time()
    last = cron.last_ones(100, after=end - timedelta(days=9 * 366), until=end)
    assert last == [end - timedelta(seconds=99 - number) for number in range(100)]
    assert time.process_time() - began < 10  # walked, it would take an hour


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("", "Wrong number of fields"),
        ("* * * *", "five fields are minute, hour"),
        ("60 * * * *", "Bad minute"),
        ("* 24 * * *", "Bad hour"),
        ("0 0 30 2 *", "Bad day-of-month"),
        ("*/0 * * * *", "Bad minute"),
        ("@daily", "Wrong number of fields"),
        ("0 3 * * mondays", "Bad day-of-week"),
        ("* * * * * * *", "Wrong number of fields"),
        ("0 0 */30 * MON#2", "is never due"),  # neither the 1st nor the 31st is in the second week
        (None, "must be a cron expression of at most 200 characters, not None"),
        (5, "not 5"),
        ("\N{FULLWIDTH DIGIT FIVE} * * * *", "must be a cron expression"),
        ("0," * 100 + "0 * * * *", "at most 200 characters"),
    ],
)
def test_what_is_no_expression_is_refused_with_a_sentence(expression: object, error: str) -> None:
    with pytest.raises(InvalidSchedule, match=error):
        read(expression, "UTC")


@pytest.mark.parametrize(
    ("zone", "error"),
    [
        ("Europe/Berlni", "Did you mean 'Europe/Berlin'?"),
        ("Europe", "There is no time zone 'Europe'"),
        ("", "There is no time zone ''"),
        ("../UTC", "There is no time zone"),
        (None, "There is no time zone None"),
        (1, "There is no time zone 1"),
        ("a\0b", "There is no time zone"),
    ],
)
def test_what_is_no_zone_is_refused_with_a_sentence(zone: object, error: str) -> None:
    with pytest.raises(InvalidSchedule, match=error):
        read("* * * * *", zone)


def test_blanks_make_no_other_expression() -> None:
    assert read("  */5  *\t* * * ", "UTC") == read("*/5 * * * *", "UTC")
