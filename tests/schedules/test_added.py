"""Schedules that operators add: from their rows alone, picked up and fenced by every change."""

from __future__ import annotations

import logging
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue import InvalidSchedule
from django_dbqueue.models import Message, Schedule
from django_dbqueue.models.fields import clock
from django_dbqueue.schedules.declarations import RUN_HEADER
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.timetable import CHECK_EVERY, Timetable
from tests.concurrency.steps import meet
from tests.schedules.timetables import (
    ALSO_HOURLY,
    GOOD,
    HOURLY,
    NEVER_NOW,
    Looker,
    Worker,
    add,
    hourly,
    last_check_was,
    plan,
    seen,
    sent,
    stands,
)

pytestmark = pytest.mark.django_db


# By a worker


def test_what_was_added_is_enqueued_once_at_each_due_time_whoever_checks() -> None:
    add(payload={"a": [1, None]}, key="one", missed="all")
    first, second = Looker(), Looker(plan("declared"))
    first.check()
    since = last_check_was(timedelta(hours=3))
    for worker in (first, second, first, second):
        worker.check()
    assert sent() == hourly(since, clock("default"))[:1], "the key holds the others back"
    [message] = Message.objects.all()
    assert (message.queue, message.key, message.payload) == ("tests", "one", {"a": [1, None]})
    assert stands().last_message_id == message.pk


@pytest.mark.parametrize("payload", [None, "text", "", 0, [], {"ü": "\0"}, True])
def test_any_json_is_a_payload(payload: Any) -> None:
    add(payload=payload)
    last_check_was(timedelta(hours=1))
    Looker().check()
    assert Message.objects.get().payload == payload


def test_a_worker_without_schedules_asks_nothing_until_one_is_added(django_assert_num_queries: Any) -> None:
    timetable = Timetable(session_of("default"), (), clock("default"))
    with django_assert_num_queries(0):
        timetable.run(0.0)
        assert timetable.until_next(0.0) == float("inf")
    add(cron=NEVER_NOW)
    with django_assert_num_queries(1):
        timetable.added = "1"
        timetable.run(0.1)
        timetable.run(0.2)
    assert timetable.until_next(0.1) == CHECK_EVERY
    with django_assert_num_queries(1):
        timetable.added = "2"
        timetable.run(0.3)


def test_the_idle_poll_sees_every_change_of_what_was_added_and_of_nothing_else() -> None:
    Worker(plan("declared")).check()
    assert seen() == ""
    add()
    states = [seen()]
    Schedule.objects.change("s", **GOOD | {"queue": "other"})
    states.append(seen())
    Schedule.objects.disable("s")
    states.append(seen())
    Schedule.objects.enable("s")
    states.append(seen())
    Schedule.objects.run_now("s")
    assert seen() == states[-1]
    add("t")
    states.append(seen())
    assert len(set(states)) == 5
    assert "" not in states
    for name in ("s", "t"):
        Schedule.objects.remove(name)
    assert seen() == ""


def test_one_row_that_can_not_be_read_is_reported_once_and_holds_no_other_back(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, wrong in {"a": {"cron": "never"}, "b": {"body": "{"}, "c": {"timezone": "Mars"}}.items():
        add(name)
        Schedule.objects.filter(pk=name).update(**wrong)
    add("z")
    last_check_was(timedelta(hours=1), "z")
    worker = Looker()
    with caplog.at_level(logging.ERROR, "django_dbqueue"):
        for _ in range(3):
            worker.check()
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[1] for line in lines if "this worker can't run it" in line] == ["a", "b", "c"]
    assert len(sent("z")) == 1
    Schedule.objects.filter(pk="a").update(cron=HOURLY)
    last_check_was(timedelta(hours=1), "a")
    worker.check()
    assert len(sent("a")) == 1, "a row that is repaired by SQL is read again"


def test_a_worker_that_can_not_read_cron_leaves_it_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    add()
    last_check_was(timedelta(hours=1))
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "cronsim", None)
        Looker().check()
    assert sent() == []
    Looker().check()
    assert len(sent()) == 1


def test_it_stays_when_no_worker_has_run_for_a_month() -> None:
    add()
    Schedule.objects.update(seen_at=clock("default") - timedelta(days=31))
    Schedule.objects.forget()
    assert stands().is_added


def test_workers_record_once_a_minute_that_they_run_it() -> None:
    add(cron=NEVER_NOW)
    Schedule.objects.update(seen_at=clock("default") - timedelta(seconds=61))
    stale = stands()
    Looker().check()
    assert stands().seen_at > stale.seen_at
    assert stands().declared_at == stale.declared_at


# Changed, disabled, removed


@pytest.mark.parametrize("act", ["change", "disable", "remove", "remove and add"])
def test_who_has_read_the_row_before_it_was_changed_sends_nothing_by_it(act: str) -> None:
    add()
    last_check_was(timedelta(hours=1))
    seen_before = Schedule.objects.by_name([], and_added=True)["s"]
    if act == "change":
        Schedule.objects.change("s", **GOOD | {"payload": {"new": 1}})
    elif act == "disable":
        Schedule.objects.disable("s")
    else:
        Schedule.objects.remove("s")
    if act == "remove and add":
        add()
        Schedule.objects.update(last_due=seen_before.last_due, seen_at=seen_before.seen_at)
    upto = hourly(seen_before.last_due, seen_before.db_now)[-1]
    assert Schedule.objects.fire(seen_before.plan(), seen_before, times=[upto], upto=upto) is False
    assert sent() == []


def test_other_times_start_over_and_anything_else_applies_from_the_next_due_time_on() -> None:
    add()
    since = last_check_was(timedelta(hours=2))
    Schedule.objects.change("s", **GOOD | {"queue": "other", "payload": [2], "missed": "all", "key": None})
    Looker().check()
    assert sent() == hourly(since, clock("default"))
    assert {message.queue for message in Message.objects.all()} == {"other"}
    last_check_was(timedelta(hours=2))
    before = clock("default")
    Schedule.objects.change("s", **GOOD | {"cron": ALSO_HOURLY})
    Looker().check()
    assert stands().last_due >= before
    assert len(sent()) == 2


@pytest.mark.parametrize("is_added", [True, False])
def test_a_disabled_one_enqueues_nothing_and_the_times_in_between_are_skipped(is_added: bool) -> None:
    worker = Looker() if is_added else Looker(plan(missed="all"))
    if is_added:
        add(missed="all")
    worker.check()
    row = Schedule.objects.disable("s", reason="noise \0", by="ann")
    assert (row.is_disabled, row.disabled_by, row.disabled_reason) == (True, "ann", "noise \\0")
    last_check_was(timedelta(hours=3))
    worker.check()
    assert sent() == []
    assert Schedule.objects.disable("s", reason="again").disabled_reason == "noise \\0", "the first reason stays"
    before = clock("default")
    row = Schedule.objects.enable("s")
    assert (row.is_disabled, row.disabled_by, row.disabled_reason) == (False, "", "")
    assert row.last_due >= before
    worker.check()
    assert sent() == []
    since = last_check_was(timedelta(hours=2))
    worker.check()
    assert sent() == hourly(since, clock("default"))


def test_enabling_never_sets_back_for_a_time_would_come_twice() -> None:
    add()
    Schedule.objects.disable("s")
    later = last_check_was(-timedelta(hours=2))
    assert Schedule.objects.enable("s").last_due == later
    again = Schedule.objects.enable("s")
    assert again.revision == stands().revision == 2, "enabling what is enabled changes nothing"


def test_a_declared_one_stays_disabled_through_new_settings() -> None:
    Worker(plan()).check()
    Schedule.objects.disable("s")
    worker = Worker(plan(cron=ALSO_HOURLY))
    worker.check()
    last_check_was(timedelta(hours=2))
    worker.check()
    assert (stands().cron, stands().is_disabled, sent()) == (ALSO_HOURLY, True, [])


# Declared by the code too


@pytest.mark.parametrize("cron", [HOURLY, ALSO_HOURLY])
def test_the_code_wins_over_what_was_added(cron: str, caplog: pytest.LogCaptureFixture) -> None:
    add(payload={"by": "operator"}, key="k", missed="all")
    since = last_check_was(timedelta(hours=2))
    worker, older = Looker(plan(cron=cron, payload={"by": "code"})), Looker()
    worker.check()
    row = stands()
    assert (row.is_added, row.key, row.cron) == (False, None, cron)
    assert "replaces the one that an operator had added" in caplog.text
    worker.check()
    older.check()
    due = hourly(since, clock("default"))[-1:] if cron == HOURLY else []
    assert sent() == due, "at the same times it continues where it was, at others it starts over"
    assert [message.payload for message in Message.objects.all()] == [{"by": "code"}] * len(due)


# Run now


def test_run_now_enqueues_one_message_and_leaves_the_due_times_as_they_are() -> None:
    add(payload={"n": 1}, key="k")
    Schedule.objects.disable("s")
    before = stands()
    message = Schedule.objects.run_now("s", by="ann")
    assert (message.queue, message.key, message.payload, message.outcome) == ("tests", "k", {"n": 1}, "created")
    assert message.headers["dbqueue.schedule"] == "s"
    assert message.headers[RUN_HEADER] == "ann"
    row = stands()
    assert (row.last_due, row.last_message_id, row.is_disabled) == (before.last_due, message.pk, True)
    again = Schedule.objects.run_now("s")
    assert (again.pk, again.outcome) == (message.pk, "ignored")
    assert Message.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_run_now_does_not_wait_for_a_worker_that_hangs_in_the_middle_of_its_move() -> None:
    """On SQLite whoever writes has the whole file, so that there is no beside."""
    add()
    last_check_was(timedelta(hours=1))
    seen_before = Schedule.objects.by_name([], and_added=True)["s"]
    upto = hourly(seen_before.last_due, seen_before.db_now)[-1]

    def fire() -> bool:
        return Schedule.objects.fire(seen_before.plan(), seen_before, times=[upto], upto=upto)

    met = meet(fire, lambda: Schedule.objects.run_now("s").pk, waits=False)
    assert met.first is True
    assert {Message.objects.get(pk=met.second).headers["dbqueue.schedule"], stands().last_due} == {"s", upto}
    assert Message.objects.count() == 2


def test_run_now_of_the_settings_and_of_what_a_consumer_declares() -> None:
    with override_settings(DBQUEUE={"SCHEDULES": {"s": {"queue": "reports", "cron": HOURLY, "payload": [7]}}}):
        assert Schedule.objects.run_now("s").payload == [7], "no worker has begun it yet"
    Worker(plan()).check()
    with pytest.raises(InvalidSchedule, match="not known here: a consumer declares it"):
        Schedule.objects.run_now("s")
    assert Schedule.objects.run_now("s", plan=plan(payload=[8])).payload == [8]
