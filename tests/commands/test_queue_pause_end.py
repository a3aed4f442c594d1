"""``queue_pause --for`` and ``--until``: a pause with an end, and what becomes of the one before it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_dbqueue.models import Queue
from django_dbqueue.models.fields import clock
from tests.commands.running import Ended, run
from tests.factories import QUEUE, claimed, let_pause_end, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def message(db: None) -> None:
    waiting(payload=1)


def pause(*arguments: str) -> Ended:
    return run("queue_pause", QUEUE, *arguments)


def end() -> str:
    return f"{Queue.objects.get().paused_until:%Y-%m-%d %H:%M:%S} UTC"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7_200), ("1.5h", 5_400), ("7d", 7 * 86_400), ("2w", 14 * 86_400)],
)
def test_a_duration_is_in_seconds_or_has_a_unit(given: str, meant: int) -> None:
    began = clock("default")
    ended = pause("--for", given, "--reason", "line is down", "--by", "ann")
    assert (ended.code, ended.err) == (0, "")
    assert f"paused until {end()}: line is down" in ended.out
    length = timedelta(seconds=meant)
    assert began + length <= Queue.objects.get().paused_until <= clock("default") + length
    assert claimed() == []
    let_pause_end()
    assert claimed() == [1]


def test_an_end_is_a_date_and_time_of_any_zone() -> None:
    ended = pause("--until", "2120-12-01T08:00+02:00", "--reason", "why", "--json")
    assert ended.document["queues"][0]["paused_until"] == "2120-12-01T06:00:00Z"
    assert end() == "2120-12-01 06:00:00 UTC"
    assert run("queue_resume", QUEUE).out == f"Queue {QUEUE} is open again.\n"
    assert Queue.objects.get().paused_until is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--for", "soon"], "'soon' is not a duration above 0: write seconds, or 90s, 15m, 12h, 7d, 2w"),
        (["--for", "0"], "'0' is not a duration above 0"),
        (["--for", "-5m"], "expected one argument"),
        (["--until", "tomorrow"], "'tomorrow' is not a date and time: write 2026-01-31T12:00:00Z"),
        (["--until", "2120-01-01T00:00"], "'2120-01-01T00:00' has no time zone"),
        (["--until", "2020-01-01T00:00Z"], "until is 2020-01-01 00:00:00 UTC, which has passed"),
        (["--until", "2120-01-01T00:00Z", "--for", "2h"], "not allowed with argument"),
        (["--for", "2h", "--group", "g", "--create"], "The pause of a group lasts until it is resumed"),
    ],
)
def test_a_wrong_end_is_refused_and_nothing_is_paused(arguments: list[str], error: str) -> None:
    ended = pause("--reason", "why", *arguments)
    assert (ended.code != 0, ended.out) == (True, "")
    assert error in ended.err
    assert Queue.objects.paused_names() == set()


def test_another_end_replaces_the_pause_before_and_shows_what_that_was() -> None:
    pause("--reason", "first", "--by", "ann")
    ended = pause("--for", "2h", "--reason", "second", "--by", "ben")
    lines = ended.out.splitlines()
    assert lines[0] == f"Queue {QUEUE} is paused until {end()}: second"
    assert lines[1].startswith("  This replaces its pause until it is resumed, by ann since ")
    assert lines[1].endswith(": first")
    before = end()
    lines = pause("--for", "3h", "--reason", "third", "--by", "ben").out.splitlines()
    assert lines[0] == f"Queue {QUEUE} is paused until {end()}: third"
    assert lines[1].startswith(f"  This replaces its pause until {before}, by ben since ")
    lines = pause("--reason", "for good").out.splitlines()
    assert lines[0] == f"Queue {QUEUE} is paused until it is resumed: for good"
    assert Queue.objects.get().paused_until is None


def test_the_same_end_again_changes_nothing() -> None:
    pause("--until", "2120-01-01T00:00Z", "--reason", "first", "--by", "ann")
    ended = pause("--until", "2120-01-01T00:00Z", "--reason", "second", "--by", "ben")
    assert ended.out.startswith(f"Queue {QUEUE} is already paused until 2120-01-01 00:00:00 UTC, by ann since ")
    assert ended.out.endswith(": first\n")
    assert Queue.objects.get().paused_by == "ann"


def test_a_queue_whose_pause_has_ended_is_open_and_can_be_paused_again() -> None:
    pause("--for", "2h", "--reason", "first", "--by", "ann")
    let_pause_end()
    assert run("queue_resume", QUEUE).out == f"Queue {QUEUE} is already open.\n"
    document = run("queue_resume", QUEUE, "--json").document["queues"][0]
    assert (document["changed"], document["paused"], document["paused_by"]) == (False, False, "")
    ended = pause("--reason", "second", "--by", "ben")
    assert ended.out == f"Queue {QUEUE} is paused: second\n"
    assert claimed() == []
