"""The liveness file's time follows the loops of a real worker's children, and not their heartbeats."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.models import Message, Worker
from tests.process.conftest import wait_until
from tests.process.freezing import freeze

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "alive"


def is_touched_after(file: Path, moment: float) -> bool:
    return file.exists() and file.stat().st_mtime > moment


def _state_of(worker: Any) -> str:
    """What tells why a loop stands still: the worker's processes and rows, and its output."""
    processes = subprocess.run(["ps", "-eo", "pid,ppid,stat,wchan:20,args"], capture_output=True, text=True).stdout
    own = "\n".join(line for line in processes.splitlines() if "run_queue_worker" in line)
    return f"{own}\n{list(Worker.objects.values())}\n{worker.output}"


def test_it_is_touched_while_the_worker_idles_and_works_and_is_gone_when_it_has_ended(
    start_worker: Callable[..., Any], file: Path
) -> None:
    worker = start_worker("--queues", "test", "--processes", "2", "--liveness-file", str(file))
    worker.wait_for_output("worker started")
    for _ in range(2):
        now = time.time()
        wait_until(lambda now=now: is_touched_after(file, now), "the idle worker to touch it")
    message = Message.objects.enqueue({"do": "sleep", "seconds": 30}, queue="test")
    worker.wait_for("begin", message.pk)
    for _ in range(2):
        now = time.time()
        wait_until(lambda now=now: is_touched_after(file, now), "the working worker to touch it")
    file.unlink()
    wait_until(file.exists, "it to be made again")
    worker.signal(signal.SIGTERM)
    worker.wait_for_output("stopping: ")  # two that wait in a process that stands still are one
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 3
    assert not file.exists()


def test_a_child_whose_loop_stands_still_is_seen_though_another_one_works(
    start_worker: Callable[..., Any], file: Path
) -> None:
    worker = start_worker("--queues", "test", "--processes", "2", "--liveness-file", str(file))
    wait_until(lambda: Worker.objects.count() == 2, "two children")
    pids = list(Worker.objects.values_list("pid", flat=True))
    freeze(pids[0])
    stopped = time.time()
    for _ in range(3):  # which the supervisor and the other child live through
        message = Message.objects.enqueue({"do": "sleep", "seconds": 1.5}, queue="test")
        worker.wait_for("end", message.pk)
    # Between a touch and the time that it is set to, it is as new as that touch
    wait_until(lambda: file.stat().st_mtime <= stopped + 1.0, "the time at which the child stood still")
    os.kill(pids[0], signal.SIGCONT)
    assert time.time() > stopped + 4.0
    now = time.time()
    wait_until(lambda: is_touched_after(file, now), lambda: f"it to be touched once more; {_state_of(worker)}")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_a_child_that_was_recycled_and_waits_for_what_its_handler_left_running_does_not_hold_it_back(
    start_worker: Callable[..., Any], file: Path
) -> None:
    worker = start_worker(
        "--queues", "test", "--grace", "3600", "--child-max-messages", "1", "--liveness-file", str(file)
    )
    leaving = Message.objects.enqueue({"do": "leave thread", "seconds": 3600}, queue="test")
    [left] = worker.wait_for("end", leaving.pk)
    worker.wait_for("end", Message.objects.enqueue({"do": "ok"}, queue="test").pk)
    now = time.time()
    # many times: between a touch and the time that it is set to, it is as new as that touch
    wait_until(lambda: all(is_touched_after(file, now) for _ in range(1_000)), "the successor's turns")
    os.kill(left["pid"], 0)


def test_a_file_that_cannot_be_written_is_refused_at_the_start(start_worker: Callable[..., Any], file: Path) -> None:
    worker = start_worker("--liveness-file", str(file / "below" / "nothing"))
    assert worker.ended() == 1
    assert "--liveness-file can't be written: " in worker.output


@pytest.mark.parametrize("is_named", [True, False])
def test_a_directory_or_no_name_is_refused_and_keeps_its_time(
    start_worker: Callable[..., Any], tmp_path: Path, *, is_named: bool
) -> None:
    directory = tmp_path if is_named else Path()
    before = directory.stat().st_mtime_ns
    worker = start_worker("--queues", "test", "--drain", "--liveness-file", str(tmp_path) if is_named else "")
    assert worker.ended() == 1
    why = f"'{tmp_path}' is a directory" if is_named else "its name is empty, or that of a directory"
    assert f"--liveness-file can't be written: {why}; name a file" in worker.output
    assert directory.is_dir()
    assert is_named or directory.stat().st_mtime_ns == before


def test_a_file_that_can_no_longer_be_written_is_logged_once(start_worker: Callable[..., Any], tmp_path: Path) -> None:
    directory = tmp_path / "alive"
    directory.mkdir()
    worker = start_worker("--queues", "test", "--liveness-file", str(directory / "file"))
    worker.wait_for_output("worker started")
    (directory / "file").unlink()
    directory.rmdir()
    worker.wait_for_output("can't touch the liveness file")
    message = Message.objects.enqueue({"do": "ok"}, queue="test")
    worker.wait_for("ok", message.pk)
    directory.mkdir()
    wait_until((directory / "file").exists, "it to be made once more")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert worker.output.count("can't touch the liveness file") == 1
