"""Children that have nothing to do rest: one asks for all, and none of them is needed for what comes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from django_dbqueue.liveness.late_workers import BEAT_RESTING
from django_dbqueue.models import Message, Queue, Worker
from tests.process.conftest import wait_until
from tests.process.freezing import freeze
from tests.process.sessions import end_sessions, sessions

pytestmark = pytest.mark.django_db(transaction=True)
CHILDREN = 3
RESTING = "tests.process.resting_settings"


@pytest.fixture
def resting(start_worker: Callable[..., Any]) -> Any:
    """A worker whose children rest."""
    worker = start_worker("--queues", "test", "--processes", str(CHILDREN), DJANGO_SETTINGS_MODULE=RESTING)
    all_rest()
    return worker


def all_rest() -> None:
    def rest() -> bool:
        return Worker.objects.filter(beat_every__gte=BEAT_RESTING, held=0).count() == CHILDREN == Worker.objects.count()

    wait_until(rest, lambda: f"children that rest: {list(Worker.objects.values())}")


def send(**what: Any) -> Message:
    return Message.objects.enqueue(what, queue="test")


def all_get_work(worker: Any, gate: Path) -> None:
    for _ in range(2 * CHILDREN):  # each may hold one that it has fetched ahead
        send(do="until", file=str(gate))
    wait_until(
        lambda: len({note["pid"] for note in worker.notes("begin")}) == CHILDREN,
        lambda: f"all children to begin one: {worker.notes()}",
    )
    gate.touch()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_whichever_of_them_is_frozen_or_killed_the_others_begin_what_comes(
    resting: Any, number: signal.Signals
) -> None:
    for pid in Worker.objects.values_list("pid", flat=True):
        if number is signal.SIGSTOP:
            freeze(pid)
        else:
            os.kill(pid, number)
        message = send(do="ok")
        [ok] = resting.wait_for("ok", message.pk)
        assert ok["pid"] != pid
        if number is signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
        all_rest()


def test_as_many_wake_as_there_is_work_for(resting: Any, tmp_path: Path) -> None:
    all_get_work(resting, tmp_path / "gate")
    all_rest()


def test_one_of_them_beats_for_all(resting: Any) -> None:
    before = max(Worker.objects.values_list("beat_at", flat=True))

    def one_beat_of_all() -> bool:
        beats = set(Worker.objects.values_list("beat_at", flat=True))
        return len(beats) == 1 and beats.pop() > before

    wait_until(one_beat_of_all, lambda: f"one beat of all rows: {list(Worker.objects.values())}")
    assert not resting.notes()


def test_they_begin_what_is_due_later_what_comes_again_and_what_was_left_behind(resting: Any) -> None:
    left = Message.objects.enqueue({"do": "ok"}, queue="test", delay=0.0)
    if claimed := Message.objects.claim(1, queue="test", lease=1):  # unless the worker was quicker
        assert [each.pk for each in claimed] == [left.pk]
    later = Message.objects.enqueue({"do": "ok"}, queue="test", delay=3)
    failing = send(do="fail", times=1)
    for message in (left, later, failing):
        wait_until(
            lambda message=message: Message.objects.done().filter(pk=message.pk).exists(), f"the end of {message.pk}"
        )


def test_in_a_paused_queue_nothing_begins_until_it_is_resumed(resting: Any) -> None:
    Queue.objects.pause("test")
    message = send(do="ok")
    pids = set(Worker.objects.values_list("pid", flat=True))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)  # and those that come in their places check at once
    wait_until(lambda: not pids & set(Worker.objects.values_list("pid", flat=True)), "their successors")
    all_rest()
    assert Message.objects.get(pk=message.pk).read_count == 0
    Queue.objects.resume("test")
    resting.wait_for("ok", message.pk)


def test_an_hour_between_two_questions_delays_nothing_whose_time_is_known(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    later = Message.objects.enqueue({"do": "ok"}, queue="test", delay=20, priority=5)
    left = Message.objects.enqueue({"do": "ok"}, queue="test")
    [claimed] = Message.objects.claim(1, queue="test", lease=20)
    assert claimed.pk == left.pk
    worker = start_worker("--queues", "test", "--idle-interval", "3600", DJANGO_SETTINGS_MODULE=RESTING)
    wait_until(lambda: Worker.objects.filter(beat_every=5_400).exists(), "a worker that asks once an hour")
    for message in (left, later):
        worker.wait_for("ok", message.pk)


def test_they_stop_as_ever(resting: Any) -> None:
    resting.signal(signal.SIGTERM)
    assert resting.ended() == 0
    assert not Worker.objects.exists()


@pytest.mark.skipif("sqlite" in connection.vendor, reason="SQLite has no sessions")
def test_sleepers_whose_sessions_the_server_has_ended_connect_again_without_a_word(
    resting: Any, tmp_path: Path
) -> None:
    before = sessions()
    end_sessions(before)
    wait_until(partial(_have_new_sessions, before), lambda: f"new sessions; output:\n{resting.output}")
    all_get_work(resting, tmp_path / "gate")
    assert resting.output.count("database trouble") <= 1, "the asker's alone"


def _have_new_sessions(before: set[int]) -> bool:
    rows = list(Worker.objects.exclude(conn_id__in=before).values_list("conn_id", flat=True))
    return len(rows) == CHILDREN and set(rows) <= sessions()
