"""The age of a row counts only time in which somebody checked the clock."""

from __future__ import annotations

import pytest

from django_dbqueue.history.lived_time import SECOND, LivedTime

pytestmark = pytest.mark.once
HOUR, DAY = 3_600 * SECOND, 86_400 * SECOND
WEEK = 7 * 86_400.0
BEGIN = 1_000 * DAY


def checked(*hours: float) -> LivedTime:
    """One who checked it at these moments, in hours since the beginning."""
    lived = LivedTime(BEGIN)
    for each in hours:
        lived = lived.checked(BEGIN + int(each * HOUR))
    return lived


def days_ago(lived: LivedTime, seconds: float) -> float:
    return (lived.seen - lived.before(seconds)) / DAY


def test_while_somebody_checks_it_time_is_what_the_clock_shows() -> None:
    lived = checked(*range(24))
    assert lived.gaps == ()
    assert days_ago(lived, WEEK) == 7


def test_a_jump_counts_for_a_tenth_of_the_retention_and_a_day_at_most() -> None:
    lived = checked(1, 1 + 365 * 24)
    before_the_jump = BEGIN + HOUR
    assert lived.before(WEEK) == before_the_jump - int(6.3 * DAY)
    assert lived.before(100 * WEEK) == before_the_jump - 699 * DAY
    assert lived.before(3_600.0) == before_the_jump - int(0.9 * HOUR)


def test_time_goes_on_behind_a_jump() -> None:
    lived = checked(1, 1 + 365 * 24, 2 + 365 * 24, 3 + 365 * 24)
    assert lived.before(2 * 3_600.0) == lived.seen - 2 * HOUR
    assert lived.before(7_500.0) == lived.seen - 7_500 * SECOND, "the end of the jump counts"
    assert lived.before(WEEK) == BEGIN + HOUR - int(6.3 * DAY) + 2 * HOUR


def test_a_clock_that_returns_takes_the_jump_back() -> None:
    lived = checked(1, 1 + 365 * 24, 2, 3)
    assert lived.gaps == ()
    assert days_ago(lived, WEEK) == 7


def test_many_jumps_and_returns_do_not_add_up() -> None:
    lived = checked(*(hour + (365 * 24 if hour % 2 else 0) for hour in range(100)))
    assert days_ago(lived.checked(BEGIN + 100 * HOUR), WEEK) == 7


def test_workers_that_run_once_a_day_keep_it_no_longer_where_the_retention_is_long() -> None:
    lived = checked(*(24 * day for day in range(30)))
    assert days_ago(lived, 2 * WEEK) == 14
    assert days_ago(lived, WEEK) == pytest.approx(9.7), "seven tenths of each day count"


def test_gaps_that_are_past_are_forgotten() -> None:
    lived = checked(1, 1 + 365 * 24, 2 + 365 * 24)
    assert lived.unseen == 365 * 86_400
    assert lived.since(lived.before(3_600.0)).gaps == ()
    assert lived.since(lived.before(WEEK)) == lived
