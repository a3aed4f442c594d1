"""What real workers send to Sentry: while they are killed, when messages die, and before they end."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.models import Failure, Message, MessageEvent, Schedule
from django_dbqueue.schedules.declarations import DUE_HEADER
from django_dbqueue.statements.events_sql import DEADLY
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
EVERY_SECOND = {"queue": "test", "cron": "* * * * * *", "timezone": "UTC", "missed": "all"}
EVERY_MINUTE = {"queue": "test", "cron": "* * * * *", "timezone": "UTC", "payload": {"do": "ok"}}


def schedule_of(payload: dict[str, Any], *, queue: str = "test") -> str:
    return json.dumps({"SCHEDULES": {"ticks": {**EVERY_SECOND, "queue": queue, "payload": payload}}})


def test_each_due_time_is_one_check_in_while_workers_are_killed_at_random(
    start_worker: Callable[..., Any], worker_env: dict[str, str], envelopes: Callable[[str], list[dict[str, Any]]]
) -> None:
    settings = schedule_of({"do": "sleep", "seconds": 0.3}, queue="short-lease")
    chance = random.Random(7)

    def start(dbqueue: str = settings) -> Any:
        several = ("--processes", "2", "--threads", "2")
        return start_worker("--queues", "short-lease", *several, DBQUEUE_TEST_SETTINGS=dbqueue)

    workers = [start() for _ in range(2)]
    for _ in range(5):
        begun = len(envelopes("check_in"))
        wait_until(lambda begun=begun: len(envelopes("check_in")) > begun, "another check-in")
        workers.pop(chance.randrange(len(workers))).signal_all(signal.SIGKILL)
        workers.append(start())
    wait_until(lambda: Message.objects.count() >= 8, "eight ticks")
    workers.append(start("{}"))  # without the schedule: it does what is left
    for worker in workers:
        worker.wait_for_output("worker started")
    for worker in workers[:-1]:
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0, worker.output
    wait_until(lambda: not Message.objects.exclude(status="y").exists(), "all ticks to be done")
    workers[-1].signal(signal.SIGTERM)
    assert workers[-1].ended() == 0, workers[-1].output
    dues = {message.headers[DUE_HEADER] for message in Message.objects.done("short-lease")}
    seen = envelopes("check_in")
    statuses: dict[str, set[str]] = {}
    for each in seen:
        assert each["monitor_slug"] == "ticks"
        statuses.setdefault(each["check_in_id"], set()).add(each["status"])
    assert len(statuses) == len(dues) == Message.objects.count()
    assert set(map(frozenset, statuses.values())) == {frozenset({"in_progress", "ok"})}
    assert all(each["duration"] >= 0.3 for each in seen if each["status"] == "ok")


def test_a_check_in_of_a_message_that_dies_is_an_error_also_if_its_worker_was_killed(
    start_worker: Callable[..., Any], envelopes: Callable[[str], list[dict[str, Any]]]
) -> None:
    worker = start_worker("--queues", "test", DBQUEUE_TEST_SETTINGS=schedule_of({"do": "die"}))
    wait_until(lambda: any(each["status"] == "error" for each in envelopes("check_in")), lambda: worker.output)
    [first] = [each for each in envelopes("check_in") if each["status"] == "error"][:1]
    of_it = [each["status"] for each in envelopes("check_in") if each["check_in_id"] == first["check_in_id"]]
    assert of_it[-1] == "error"
    assert set(of_it) == {"in_progress", "error"}
    died = [each for each in envelopes("event") if each["logger"] == "django_dbqueue.deaths"]
    assert died[0]["exception"]["values"][0]["type"] == "WorkerDied"
    assert died[0]["fingerprint"][:2] == ["django_dbqueue", "test"]


def test_a_death_is_one_event_grouped_by_our_kind_of_failure_and_a_retry_is_none(
    start_worker: Callable[..., Any], envelopes: Callable[[str], list[dict[str, Any]]]
) -> None:
    for text in ("first", "second"):
        Message.objects.enqueue({"do": "fail", "text": text}, queue="test")
    Message.objects.enqueue({"do": "fail", "times": 1}, queue="test")
    Message.objects.enqueue({"do": "reject"}, queue="test")
    worker = start_worker("--queues", "test", "--drain")
    assert worker.ended() == 0, worker.output
    events = envelopes("event")
    dead = {row.pk: row for row in Message.objects.dead("test")}
    assert sorted(each["contexts"]["message"]["id"] for each in events) == sorted(dead)
    for each in events:
        died = MessageEvent.objects.filter(message_id=each["contexts"]["message"]["id"], kind__in=DEADLY).get()
        group = Failure.objects.get(pk=died.failure_id or 0)
        assert each["fingerprint"] == ["django_dbqueue", "test", group.fingerprint]
    raised = [each for each in events if each["exception"]["values"][0]["type"] == "ValueError"]
    assert {each["exception"]["values"][0]["value"] for each in raised} == {"first", "second"}
    assert len({tuple(each["fingerprint"]) for each in raised}) == 1
    [frame] = [
        frame
        for frame in raised[0]["exception"]["values"][0]["stacktrace"]["frames"]
        if frame["function"] == "do_as_ordered"
    ]
    assert frame["filename"].endswith("queue_consumers.py")


def test_a_handlers_run_continues_the_trace_of_the_message_that_it_was_sent_from(
    start_worker: Callable[..., Any], envelopes: Callable[[str], list[dict[str, Any]]]
) -> None:
    headers = {"sentry-trace": f"{5:032x}-{6:016x}-1"}
    ok = Message.objects.enqueue({"do": "ok"}, queue="test", headers=headers)
    failing = Message.objects.enqueue({"do": "fail", "times": 1}, queue="test")
    worker = start_worker("--queues", "test", "--drain")
    assert worker.ended() == 0, worker.output
    runs = [each for each in envelopes("transaction") if each["contexts"]["trace"]["op"] == "queue.process"]
    seen = {}
    for run in runs:
        trace = run["contexts"]["trace"]
        data = trace["data"]
        assert (run["transaction"], data["messaging.destination.name"]) == ("test", "test")
        assert data["messaging.message.receive.latency"] >= 0
        key = (data["messaging.message.id"], data["messaging.message.retry.count"])
        seen[key] = (trace["status"], trace["trace_id"], trace.get("parent_span_id"))
    assert seen[str(ok.pk), 0] == ("ok", f"{5:032x}", f"{6:016x}")
    assert seen[str(failing.pk), 0][0] == "internal_error"
    assert seen[str(failing.pk), 1][0] == "ok"


def test_each_message_of_a_list_has_its_check_in(
    start_worker: Callable[..., Any], envelopes: Callable[[str], list[dict[str, Any]]]
) -> None:
    for minute in (1, 2):
        headers = {"dbqueue.schedule": "ticks", "dbqueue.due": f"2026-01-01T00:0{minute}:00+00:00"}
        Message.objects.enqueue({"do": "ok"}, queue="batches", headers=headers)
    worker = start_worker("--queues", "batches", "--drain")
    assert worker.ended() == 0, worker.output
    seen: dict[str, list[str]] = {}
    for each in envelopes("check_in"):
        seen.setdefault(each["check_in_id"], []).append(each["status"])
    assert list(seen.values()) == [["in_progress", "ok"]] * 2


def test_the_first_check_in_has_the_monitors_crontab(
    start_worker: Callable[..., Any], envelopes: Callable[[str], list[dict[str, Any]]]
) -> None:
    schedules = {"Every.Minute": EVERY_MINUTE | {"timezone": "Europe/Berlin"}}
    headers = {"dbqueue.schedule": "Every.Minute", "dbqueue.due": "2026-01-01T00:00:00+00:00"}
    Message.objects.enqueue({"do": "ok"}, queue="test", headers=headers)
    settings = json.dumps({"SCHEDULES": schedules})
    worker = start_worker("--queues", "test", "--drain", DBQUEUE_TEST_SETTINGS=settings)
    assert worker.ended() == 0, worker.output
    begun, ended = envelopes("check_in")
    assert begun["monitor_config"] == {
        "schedule": {"type": "crontab", "value": "* * * * *"},
        "timezone": "Europe/Berlin",
    }
    assert (begun["status"], ended["status"]) == ("in_progress", "ok")
    assert begun["check_in_id"] == ended["check_in_id"]
    assert begun["monitor_slug"].startswith("every-minute-")
    assert "monitor_config" not in ended


@pytest.mark.parametrize("queue", ["test", "async"])
def test_the_first_check_in_of_an_added_schedule_has_its_crontab_in_a_thread_and_in_an_event_loop(
    start_worker: Callable[..., Any], envelopes: Callable[[str], list[dict[str, Any]]], queue: str
) -> None:
    Schedule.objects.add("weekly", queue=queue, cron="0 6 * * 1", timezone="Europe/Berlin", payload={})
    headers = {"dbqueue.schedule": "weekly", "dbqueue.due": "2026-01-01T00:00:00+00:00"}
    Message.objects.enqueue({"do": "ok", "seconds": 0}, queue=queue, headers=headers)
    worker = start_worker("--queues", queue, "--drain")
    assert worker.ended() == 0, worker.output
    begun, ended = envelopes("check_in")
    assert (begun["status"], ended["status"]) == ("in_progress", "ok")
    assert begun["monitor_config"] == {
        "schedule": {"type": "crontab", "value": "0 6 * * 1"},
        "timezone": "Europe/Berlin",
    }


def test_the_death_in_an_event_loop_of_a_message_of_an_added_schedule_comes_after_its_beginning(
    start_worker: Callable[..., Any], envelopes: Callable[[str], list[dict[str, Any]]]
) -> None:
    Schedule.objects.add("weekly", queue="async", cron="0 6 * * 1", timezone="UTC", payload={})
    headers = {"dbqueue.schedule": "weekly", "dbqueue.due": "2026-01-01T00:00:00+00:00"}
    Message.objects.enqueue({"has no": "seconds"}, queue="async", headers=headers)
    worker = start_worker("--queues", "async", "--drain")
    assert worker.ended() == 0, worker.output
    assert [each["status"] for each in envelopes("check_in")] == ["in_progress", "in_progress", "error"]
