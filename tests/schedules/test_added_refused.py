"""What operators ask of schedules in vain: each refusal is a sentence, and writes nothing."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from django_dbqueue import InvalidSchedule, SchedulesNotInstalled
from django_dbqueue.models import Queue, Schedule, schedule_verbs
from tests.schedules.timetables import GOOD, Worker, add, plan, stands

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": "no name"}, "'no name' is not a queue name"),
        ({"queue": "no queue"}, "'no queue' is not a queue name"),
        ({"cron": "0 25 * * *"}, "Bad hour"),
        ({"timezone": "Europe/Berlni"}, "Did you mean 'Europe/Berlin'?"),
        ({"missed": "never"}, "missed must be one of latest, all, skip"),
        ({"payload": b"bytes"}, "The payload is not JSON"),
        ({"payload": float("nan")}, "NaN"),
        ({"payload": "x" * 2_000_000}, "1,048,576"),
        ({"key": ""}, "The key has 0 characters"),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_is_written(options: dict[str, Any], error: str) -> None:
    add()
    before = stands()
    name = options.pop("name", None)
    with pytest.raises(InvalidSchedule) as refused:
        add(name or "t", **options)
    assert error in str(refused.value)
    if name is None:
        with pytest.raises(InvalidSchedule):
            Schedule.objects.change("s", **GOOD | options)
    assert Schedule.objects.count() == 1
    assert stands().revision == before.revision


def test_a_name_that_is_in_use_is_refused_and_the_callers_transaction_goes_on() -> None:
    add()
    with transaction.atomic():
        with pytest.raises(InvalidSchedule, match="already a schedule 's'"):
            add()
        Queue.objects.pause("tests")
    assert Queue.objects.paused_names() == {"tests"}
    with override_settings(DBQUEUE={"SCHEDULES": {"t": GOOD}}), pytest.raises(InvalidSchedule, match="SCHEDULES"):
        add("t")


def test_what_the_code_declares_is_neither_changed_nor_removed() -> None:
    Worker(plan()).check()
    with pytest.raises(InvalidSchedule, match="declared in the code"):
        Schedule.objects.change("s", **GOOD)
    with pytest.raises(InvalidSchedule, match="no added schedule 's'"):
        Schedule.objects.remove("s")
    assert stands().revision == 0


def test_a_change_of_what_has_changed_is_refused() -> None:
    row = add()
    Schedule.objects.change("s", revision=row.revision, **GOOD | {"queue": "first"})
    with pytest.raises(InvalidSchedule, match="has changed in the meantime"):
        Schedule.objects.change("s", revision=row.revision, **GOOD | {"queue": "second"})
    assert stands().queue == "first"


@pytest.mark.parametrize("verb", ["disable", "enable", "remove", "run_now"])
def test_a_schedule_that_there_is_not_is_named_with_one_that_may_be_meant(verb: str) -> None:
    add("nightly")
    with pytest.raises(InvalidSchedule, match=r"'nightyl'.* Did you mean 'nightly'"):
        getattr(Schedule.objects, verb)("nightyl")


def test_no_more_are_added_than_workers_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_verbs, "MOST_ADDED", 2)
    add("a")
    add("b")
    with pytest.raises(InvalidSchedule, match="which is the limit"):
        add("c")
    assert Schedule.objects.count() == 2


def test_without_the_library_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(SchedulesNotInstalled):
        add()
    assert not Schedule.objects.exists()
