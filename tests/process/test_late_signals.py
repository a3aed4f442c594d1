"""Whoever asks a command for its exit code gets it, however often they ask."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.worker.late_signals import Unheard
from django_dbqueue.worker.shutdown import StopSignals
from tests.process.conftest import WorkerProcess, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

RUNNING = {
    "run_queue_worker": ("worker started", ()),
    "queue_rescue": ("Watching database", ("--watch",)),
    "queue_status": ("There are no queues", ("--watch",)),
}


@pytest.fixture
def start(worker_env: dict[str, str], tmp_path: Path) -> Any:
    processes: list[WorkerProcess] = []

    def started(command: str, *arguments: str) -> WorkerProcess:
        environment = worker_env | {
            "DJANGO_SETTINGS_MODULE": "tests.process.lingering_settings",
            "DBQUEUE_TEST_LINGERS": str(tmp_path),
        }
        kind = type("Lingering", (WorkerProcess,), {"command": command})
        processes.append(kind(environment, tmp_path, arguments))
        return processes[-1]

    yield started
    for process in processes:
        process.end()


def signals_while_it_lingers(process: WorkerProcess, directory: Path) -> int:
    """Send many signals to a process whose command has ended, whatever it still waits for; return its exit code."""
    for why in ("threads", "atexit"):
        process.wait_for_output(f"lingers for {why}")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            process.signal(number)
        (directory / why).touch()
    return process.ended()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", RUNNING)
def test_signals_after_the_end_leave_a_command_its_exit_code(
    start: Callable[..., WorkerProcess], tmp_path: Path, command: str, number: signal.Signals
) -> None:
    words, arguments = RUNNING[command]
    process = start(command, *arguments)
    process.wait_for_output(words)
    process.signal(number)
    assert signals_while_it_lingers(process, tmp_path) == 0, process.output
    assert "Traceback" not in process.output


def test_signals_after_the_end_of_a_drain_leave_its_exit_code(
    start: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    process = start("run_queue_worker", "--drain")
    assert signals_while_it_lingers(process, tmp_path) == 0, process.output


def test_a_worker_that_is_signalled_again_and_again_ends_with_an_exit_code(
    start_worker: Callable[..., WorkerProcess],
) -> None:
    worker = start_worker()
    worker.wait_for_output("worker started")

    def signalled_until_it_ended() -> bool:
        worker.signal(signal.SIGTERM)
        return worker.process.poll() is not None

    wait_until(signalled_until_it_ended, "its end")
    assert worker.process.returncode in {0, 3, 4}, worker.output


def test_a_process_that_hangs_after_its_end_can_be_ended() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, Unheard(lambda number, _: heard.append(number), seconds=-1.0))
    try:
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
        signal.signal(signal.SIGTERM, Unheard(lambda number, _: heard.append(number)))
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_child_that_was_just_forked_counts_no_signals() -> None:
    """Its parent repeats its signal at each turn, and the third would end a child that doesn't ignore them yet."""
    with StopSignals():
        if (child := os.fork()) == 0:
            for _ in range(3):
                signal.raise_signal(signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
