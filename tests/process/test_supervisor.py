"""What must not end the supervisor, nor keep it from its children."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.models import Message
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
BUFFERED = {"PYTHONUNBUFFERED": ""}
"""As Python is by itself: what could not be written is tried again at each flush."""


def kill_a_child_again_and_again(worker: Any) -> None:
    """Kill the child that runs a message, twice, and see that another one takes its place."""
    for _ in range(2):
        running = Message.objects.enqueue({"do": "sleep", "seconds": 300}, queue="test", max_reads=1)
        [begun] = worker.wait_for("begin", running.pk)
        os.kill(begun["pid"], signal.SIGKILL)
        wait_until(lambda running=running: Message.objects.get(pk=running.pk).is_dead, "its death")
        after = Message.objects.enqueue({"do": "ok"}, queue="test")
        [ok] = worker.wait_for("ok", after.pk)
        assert ok["pid"] != begun["pid"]


@pytest.mark.parametrize("ends", ["2>/dev/full", ">/dev/full 2>&1", ">&- 2>&-"])
def test_a_worker_whose_log_cannot_be_written_replaces_its_children_and_ends_as_ever(
    start_worker: Callable[..., Any], ends: str
) -> None:
    worker = start_worker("-v", "2", ends=ends, **BUFFERED)
    kill_a_child_again_and_again(worker)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_worker_whose_log_is_no_longer_read_replaces_its_children_and_ends_as_ever(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    worker = start_worker("-v", "2", ends=f">{pipe} 2>&1", **BUFFERED)
    wait_until(lambda: b"worker started" in _read(reader), "the first line")
    os.close(reader)
    kill_a_child_again_and_again(worker)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_what_a_handler_prints_is_lost_where_it_cannot_be_written_and_its_message_is_done(
    drain_to: Callable[..., Any],
) -> None:
    printing = [Message.objects.enqueue({"do": "print", "text": "seen? "}, queue="test") for _ in range(3)]
    drain_to(">/dev/full 2>&1")
    assert Message.objects.done("test").filter(read_count=1).count() == len(printing)


def test_a_logging_handler_of_the_project_that_raises_ends_no_process_and_keeps_no_message(
    start_worker: Callable[..., Any],
) -> None:
    worker = start_worker(DJANGO_SETTINGS_MODULE="tests.process.raising_settings")
    kill_a_child_again_and_again(worker)
    failing = Message.objects.enqueue({"do": "fail", "times": 1}, queue="test")
    wait_until(lambda: Message.objects.get(pk=failing.pk).status == "y", "its second try")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert "RuntimeError: no log server for django_dbqueue" in worker.output


def test_where_there_is_no_room_for_a_child_it_is_started_as_soon_as_there_is(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    full = tmp_path / "full"
    full.touch()
    message = Message.objects.enqueue({"do": "ok"}, queue="test")
    worker = start_worker(**_without_room(full))
    worker.wait_for_output("can't start child 0, trying again in")
    before = _descriptors(worker)
    wait_until(lambda: worker.output.count("can't start child 0") >= 4, "the fourth try")
    assert _descriptors(worker) == before, "a fork that fails leaves nothing open"
    full.unlink()
    [begun] = worker.wait_for("ok", message.pk)
    full.touch()
    os.kill(begun["pid"], signal.SIGKILL)
    worker.wait_for_output("child 0 ended by signal 9")
    full.unlink()
    worker.wait_for("ok", Message.objects.enqueue({"do": "ok"}, queue="test").pk)


def test_a_worker_without_room_for_a_child_stops_when_it_is_ordered_to(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    full = tmp_path / "full"
    full.touch()
    worker = start_worker(**_without_room(full))
    wait_until(lambda: worker.output.count("can't start child 0") >= 3, "the third try")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert "Traceback" not in worker.output


def test_a_handler_that_closes_all_descriptors_has_its_child_replaced_and_the_supervisor_sleeps(
    start_worker: Callable[..., Any],
) -> None:
    """It would be asked for ever whether the child has ended, since its line says so."""
    neighbours = [Message.objects.enqueue({"do": "ok"}, queue="test").pk for _ in range(3)]
    closing = Message.objects.enqueue({"do": "close all", "seconds": 300}, queue="test", max_reads=1)
    worker = start_worker()
    [begun] = worker.wait_for("begin", closing.pk)
    wait_until(lambda: Message.objects.get(pk=closing.pk).is_dead, "its death")
    assert "does a handler call os.closerange?" in worker.output
    after = Message.objects.enqueue({"do": "ok"}, queue="test")
    [ok] = worker.wait_for("ok", after.pk)
    assert ok["pid"] != begun["pid"]
    assert Message.objects.done("test").filter(pk__in=neighbours).count() == len(neighbours)
    assert _seconds_of_cpu(worker) < 5


def test_a_worker_that_was_started_with_the_ends_of_children_ignored_hears_of_them_all_the_same(
    start_worker: Callable[..., Any],
) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        worker = start_worker()
    finally:
        signal.signal(signal.SIGCHLD, before)
    kill_a_child_again_and_again(worker)


@pytest.fixture
def drain_to(start_worker: Callable[..., Any]) -> Callable[..., Any]:
    """Run a worker with --drain to its end, its output sent elsewhere."""

    def run(ends: str) -> Any:
        worker = start_worker("--drain", ends=ends, **BUFFERED)
        assert worker.ended() == 0
        return worker

    return run


def _without_room(full: Path) -> dict[str, str]:
    return {"DJANGO_SETTINGS_MODULE": "tests.process.unforked_settings", "DBQUEUE_TEST_FULL": str(full)}


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except BlockingIOError:
        return b""


def _descriptors(worker: Any) -> int:
    return len(list(Path(f"/proc/{worker.process.pid}/fd").iterdir()))


def _seconds_of_cpu(worker: Any) -> float:
    words = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
