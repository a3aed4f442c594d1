"""``queue_torture``: real faults on this database; nothing is lost, and nothing of the run is left, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import override_settings

from django_dbqueue.models import (
    Failure,
    Group,
    Line,
    Message,
    MessageEvent,
    Queue,
    QueueMinute,
    QueueTotal,
    Schedule,
    Ticket,
    Worker,
)
from django_dbqueue.testing.torture import rack
from django_dbqueue.testing.torture.crew import SENDERS, WORKERS
from django_dbqueue.testing.torture.errand import Errand
from django_dbqueue.testing.torture.faults import FAULTS, SESSION, TIMED
from django_dbqueue.testing.torture.reckoning import WRONG
from django_dbqueue.testing.torture.scratch import Scratch
from tests.commands.running import run, start
from tests.patience import patience
from tests.process.conftest import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("_processes_find_the_database"),
]
HAS_SESSIONS = settings.TEST_DATABASE != "sqlite"


def rows_of_runs() -> dict[str, int]:
    """Rows that a run has written, by table; without those about all queues together."""
    by_queue = (Message, MessageEvent, Failure, Group, QueueMinute, QueueTotal)
    counts = {model.__name__: model.objects.filter(queue__startswith="torture-").count() for model in by_queue}
    counts["Queue"] = Queue.objects.filter(name__startswith="torture-").count()
    counts["Worker"] = Worker.objects.filter(queues__startswith="torture-").count()
    return counts | {"Line": Line.objects.count(), "Ticket": Ticket.objects.count()}


def assert_nothing_is_left() -> None:
    assert not any(rows_of_runs().values()), rows_of_runs()


def processes_of(scratch: str) -> set[int]:
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    ).stdout
    return {int(line.split()[0]) for line in listed.splitlines() if scratch in line}


@pytest.fixture
def begun(worker_env: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A run whose workers are at work, and the name of its queues."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(worker_env, "queue_torture", "--minutes", "5", "--faults", "kill,stop", "--yes", **options) as process:
        try:
            assert process.stderr is not None
            scratch = process.stderr.readline().split()[-1].removesuffix(".*")
            wait_until(lambda: rows_of_runs()["Worker"] > 1 and Message.objects.filter(status="y").exists(), "work")
            assert len(processes_of(scratch)) > WORKERS + SENDERS
            yield process, scratch
        finally:
            process.kill()


@pytest.mark.slow
def test_whatever_dies_nothing_is_lost_nothing_is_left_and_no_other_row_is_touched() -> None:
    mine = [Message.objects.enqueue({"mine": number}, queue="test", group="mine") for number in range(3)]
    Schedule.objects.add("mine", queue="test", cron="* * * * * *")
    before = list(Message.objects.order_by("pk").values())
    ended = run("queue_torture", "--minutes", "0.2", "--seed", "7", "--yes", "--json")
    assert ended.code == 0, ended.out + ended.err
    found = ended.document
    assert found["ok"] is True
    assert found["seed"] == 7
    assert {name: found["counts"][name] for name in WRONG} == dict.fromkeys(WRONG, 0)
    assert found["counts"]["done"] >= found["counts"]["sent"] > 50
    for counted in ("failed", "rolled_back"):
        assert found["counts"][counted] > 0
    expected = set(TIMED) if HAS_SESSIONS else set(TIMED) - {SESSION}
    assert set(found["injected"]) | set(found["missed"]) == expected
    assert set(found["injected"]) > {"worker", "sender"}
    assert set(found["left_out"]) == set(TIMED) - expected
    assert list(Message.objects.order_by("pk").values()) == before
    Message.objects.filter(pk__in=[each.pk for each in mine]).drop_all("the test is over")
    assert_nothing_is_left()


@pytest.mark.slow
def test_a_run_is_reported_to_people() -> None:
    ended = run("queue_torture", "--minutes", "0.05", "--faults", "kill,fail", "--seed", "3", "--yes")
    assert ended.code == 0, ended.out + ended.err
    assert "--seed 3" in ended.out.splitlines()[-1]
    faults = [line.split()[0] for line in ended.out.partition("\n\n")[0].splitlines()]
    assert faults == ["kill", "fail"]
    assert "Running in the scratch queues torture-" in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal_it_leaves_no_row_and_no_process(
    begun: tuple[subprocess.Popen[str], str], number: signal.Signals
) -> None:
    process, scratch = begun
    process.send_signal(number)
    _, errors = process.communicate(timeout=patience(60))
    assert process.returncode == 130, errors
    assert "Interrupted" in errors
    assert processes_of(scratch) == set()
    assert_nothing_is_left()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
def test_killed_it_leaves_no_process_and_its_rows_can_be_cleaned_up(begun: tuple[subprocess.Popen[str], str]) -> None:
    process, scratch = begun
    process.kill()
    process.communicate()
    wait_until(lambda: not processes_of(scratch), "the processes to end")
    assert rows_of_runs()["Message"] > 0
    refused = run("queue_torture", "--clean-up", scratch)
    if Worker.objects.exists():
        assert (refused.code, "were alive" in refused.err) == (1, True)
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        Worker.objects.update(beat_at=long_ago, late_at=long_ago)  # the latter is far off while a worker rests
    cleaned = run("queue_torture", "--clean-up", scratch)
    assert (cleaned.code, cleaned.out, cleaned.err) == (0, f"The scratch queues {scratch}.* are gone.\n", "")
    assert_nothing_is_left()


def test_a_process_whose_starter_is_gone_before_it_begins_does_nothing(tmp_path: Path) -> None:
    errand = Errand("default", Scratch.drawn().name, str(tmp_path / "history"), "1", starter=os.getppid())
    command = [sys.executable, "-m", f"{rack.__package__}.sender_process", errand.as_argument]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience(60))
    assert (ended.returncode, ended.stderr) == (1, "The command that started this process is gone.\n")


def test_what_resembles_production_is_refused_by_name() -> None:
    Worker.objects.create(id=1, host="web-3", pid=1, queues="emails", threads=1)
    with override_settings(DEBUG=False):
        refused = run("queue_torture")
    assert refused.code == 2
    assert "DEBUG is off; workers are serving its queues (1 processes)" in refused.err
    assert "--yes" in refused.err
    assert_nothing_is_left()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--faults", "kill,fire"), "there is no fault 'fire'; there are: kill, worker"),
        (("--faults", "kill,kill"), "'kill' is given twice"),
        (("--faults", ","), "names no fault"),
        (("--minutes", "0"), "'0' is not a number of minutes from 0.05 to 1,440"),
        (("--minutes", "nan"), "'nan' is not a number of minutes"),
        (("--seed", "x"), "'x' is not a whole number"),
        (("--clean-up", "emails"), "'emails' is not the name of a run"),
        (("--database", "defualt"), "There is no database 'defualt' in DATABASES. Did you mean 'default'?"),
    ],
)
def test_a_wrong_option_is_reported_and_nothing_runs(words: tuple[str, ...], error: str) -> None:
    refused = run("queue_torture", "--yes", *words)
    assert refused.code != 0
    assert error in refused.err
    assert_nothing_is_left()


def test_where_no_session_can_be_ended_that_fault_is_left_out_and_alone_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def denied(*_: Any) -> None:
        raise OperationalError(1095, "You are not owner of thread 7")

    monkeypatch.setattr(rack, "end_session", denied)
    reason = "You are not owner of thread 7" if HAS_SESSIONS else "SQLite has no sessions"
    assert reason in str(rack.why_no_session_can_be_ended("default"))
    refused = run("queue_torture", "--yes", "--faults", "session")
    assert refused.code == 2
    assert reason in refused.err
    assert "--faults names nothing else" in refused.err


if HAS_SESSIONS:

    def test_where_sessions_can_be_ended_it_is_tried_on_one_of_our_own() -> None:
        assert rack.why_no_session_can_be_ended("default") is None


def test_all_names_of_faults_are_different_and_scratch_queues_have_valid_ones() -> None:
    assert len(set(FAULTS)) == len(FAULTS)
    scratch = Scratch.drawn()
    assert Scratch.named(scratch.name) == scratch
    Message.objects.enqueue({}, queue=scratch.effects)
    scratch.clean_up("default")
    assert_nothing_is_left()
