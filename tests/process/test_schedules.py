"""Schedules among real workers: once per due time, however many there are and however they end."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from django_dbqueue.models import Message, Schedule
from django_dbqueue.schedules.declarations import DUE_HEADER, NAME_HEADER, RUN_HEADER
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
SECOND = timedelta(seconds=1)
TICKS = {"queue": "ticks", "cron": "* * * * * *", "timezone": "UTC", "missed": "all", "payload": {"tick": True}}


@pytest.fixture
def worker_env(worker_env: dict[str, str]) -> dict[str, str]:
    """Workers of this module have the schedules that ``declare`` says."""
    worker_env["DJANGO_SETTINGS_MODULE"] = "tests.process.scheduled_settings"
    declare(worker_env)
    return worker_env


def declare(worker_env: dict[str, str], **schedules: Any) -> None:
    worker_env["DBQUEUE_TEST_SETTINGS"] = json.dumps({"SCHEDULES": schedules})


def due_times(name: str) -> list[datetime]:
    """Of the schedule's messages, in the order of their ids; those that somebody ran by hand had none."""
    headers = [message.headers for message in Message.objects.order_by("pk")]
    return [
        datetime.fromisoformat(each[DUE_HEADER])
        for each in headers
        if each.get(NAME_HEADER) == name and RUN_HEADER not in each
    ]


def ticks() -> int:
    return int(Message.objects.in_queue("ticks").count())


@pytest.mark.parametrize("source", ["declared", "added by an operator"])
def test_each_due_time_comes_once_while_workers_are_killed_at_random(
    source: str, start_worker: Callable[..., Any], worker_env: dict[str, str]
) -> None:
    if source == "declared":
        declare(worker_env, ticks=TICKS)
    chance = random.Random(4)
    workers = [start_worker("--processes", "2", "--queues", "test") for _ in range(3)]
    if source != "declared":
        Schedule.objects.add("ticks", **TICKS)
    runs = 0
    for number in range(8):
        before = ticks()
        wait_until(lambda before=before: ticks() > before, "the next tick")
        if source != "declared":  # an operator is at it too
            Schedule.objects.change("ticks", **TICKS | {"payload": {"changed": number}})
            Schedule.objects.run_now("ticks")
            runs += 1
        workers.pop(chance.randrange(len(workers))).signal_all(signal.SIGKILL)
        workers.append(start_worker("--processes", "2", "--queues", "test"))
    wait_until(lambda: ticks() >= 12, "twelve ticks")
    for worker in workers:
        worker.wait_for_output("worker started")
        worker.signal(signal.SIGTERM)
    for worker in workers:
        assert worker.ended() == 0, worker.output
    times = due_times("ticks")
    first, last = times[0], Schedule.objects.get(pk="ticks").last_due
    seconds = int((last - first).total_seconds())
    assert times == [first + number * SECOND for number in range(seconds + 1)]
    assert len(times) == ticks() - runs


def test_workers_pick_up_without_a_restart_what_an_operator_adds_disables_enables_and_removes(
    start_worker: Callable[..., Any], worker_env: dict[str, str]
) -> None:
    worker = start_worker("--queues", "test")
    wait_until(lambda: due_times("every-second"), "the schedule of a consumer")

    def seconds_pass() -> None:
        """Wait for three due times of another schedule: the workers are alive and look."""
        ticked = len(due_times("every-second"))
        wait_until(lambda: len(due_times("every-second")) >= ticked + 3, "three ticks of the other schedule")

    Schedule.objects.add("ticks", **TICKS)
    wait_until(lambda: len(due_times("ticks")) >= 2, "two ticks")
    for stop, start in (
        (lambda: Schedule.objects.disable("ticks", by="ann"), lambda: Schedule.objects.enable("ticks")),
        (lambda: Schedule.objects.remove("ticks"), lambda: Schedule.objects.add("ticks", **TICKS)),
    ):
        stop()
        before = due_times("ticks")
        seconds_pass()
        assert due_times("ticks") == before
        start()
        wait_until(lambda before=before: len(due_times("ticks")) > len(before), "the next tick")
        times = due_times("ticks")
        assert len(set(times)) == len(times)
        assert times[len(before)] - before[-1] >= 3 * SECOND, "what was due in between is skipped"
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_a_consumers_cron_calls_it_at_each_due_time(start_worker: Callable[..., Any]) -> None:
    worker = start_worker("--processes", "2")
    notes = worker.wait_for("called", times=3)
    for each in notes:
        assert each["payload"] == {}
        assert each["headers"][NAME_HEADER] == "every-second"
        assert datetime.fromisoformat(each["headers"][DUE_HEADER]).microsecond == 0
    times = [each["headers"][DUE_HEADER] for each in notes]
    assert len(set(times)) == len(times)


def test_what_is_removed_from_the_settings_leaves_no_ghost(
    start_worker: Callable[..., Any], worker_env: dict[str, str]
) -> None:
    declare(worker_env, ticks=TICKS, tocks=TICKS | {"queue": "tocks"})
    worker = start_worker("--queues", "test")
    wait_until(lambda: due_times("ticks") and due_times("tocks"), "a tick and a tock")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    ended_with = due_times("ticks")
    declare(worker_env, tocks=TICKS | {"queue": "tocks"})
    worker = start_worker("--queues", "test")
    tocks = len(due_times("tocks"))
    wait_until(lambda: len(due_times("tocks")) >= tocks + 3, "three tocks of the next worker")
    assert due_times("ticks") == ended_with


def test_a_worker_that_serves_none_of_their_queues_enqueues_all_schedules(
    start_worker: Callable[..., Any], worker_env: dict[str, str]
) -> None:
    declare(worker_env, ticks=TICKS | {"queue": "nobody-serves-it"})
    worker = start_worker("--queues", "async")
    wait_until(lambda: due_times("ticks") and due_times("every-second"), "both schedules")
    assert Message.objects.ready("nobody-serves-it").exists()
    assert Message.objects.ready("every-second").exists()
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


@pytest.mark.parametrize(
    ("schedules", "error"),
    [
        ({"ticks": TICKS | {"cron": "* * * *"}}, "five fields are minute, hour"),
        ({"ticks": TICKS | {"tiemzone": "UTC"}}, "Did you mean 'timezone'?"),
        ({"every-second": TICKS}, "Two schedules are named 'every-second'"),
    ],
)
def test_a_worker_with_a_schedule_that_can_not_be_refuses_to_start(
    schedules: dict[str, Any], error: str, start_worker: Callable[..., Any], worker_env: dict[str, str]
) -> None:
    declare(worker_env, **schedules)
    worker = start_worker("--drain")
    assert worker.ended() == 1
    assert error in worker.output
    assert "Traceback" not in worker.output
