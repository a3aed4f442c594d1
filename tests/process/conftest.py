from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from django.conf import settings

from tests.patience import patience

collect_ignore = [] if settings.TEST_DATABASE == "postgres" else ["test_listening.py"]  # none other wakes anybody
if settings.TEST_DATABASE == "sqlite":
    collect_ignore.append("test_async_sessions.py")  # it has no sessions

PATIENCE = patience(60)
"""Seconds after which an event that should have come is called missing; far beyond what any machine needs."""
LONGEST = 10 * PATIENCE
"""Seconds after which a worker that still moves is called endless."""


def whole_lines(file: Path) -> list[str]:
    """What somebody has written so far, without the line that he is just writing."""
    text = file.read_text() if file.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def wait_until(happened: Callable[[], Any], what: str | Callable[[], str]) -> Any:
    """Wait for an event and return what it gave; fail by name, told at the end, when it doesn't come."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := happened():
            return found
        time.sleep(0.02)
    pytest.fail(f"waited {PATIENCE:g} s in vain for: {what if isinstance(what, str) else what()}")


class WorkerProcess:
    """A real ``run_queue_worker`` in a process group of its own, and the log that its consumers write."""

    command = "run_queue_worker"

    def __init__(
        self, environment: dict[str, str], directory: Path, arguments: tuple[str, ...], *, ends: str = ""
    ) -> None:
        """``ends``: how a shell ends the command's line; its output goes into a file otherwise."""
        self.log = directory / "consumers.log"
        self._output = directory / f"worker-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "django", self.command, *arguments]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", f'exec "$0" "$@" {ends}', *command] if ends else command,
                env=environment | {"DBQUEUE_TEST_LOG": str(self.log)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._output.read_text()

    def notes(self, step: str = "", message_id: int | None = None) -> list[dict[str, Any]]:
        """What the consumers wrote down so far."""
        notes = [json.loads(line) for line in whole_lines(self.log)]
        return [n for n in notes if step in ("", n["step"]) and (message_id is None or n["id"] == message_id)]

    def wait_for(self, step: str, message_id: int | None = None, times: int = 1) -> list[dict[str, Any]]:
        """Wait until a step was written down that often."""

        def enough() -> list[dict[str, Any]]:
            found = self.notes(step, message_id)
            return found if len(found) >= times else []

        return wait_until(enough, lambda: f"{times} × {step!r} of {message_id}; output:\n{self.output}")  # type: ignore[no-any-return]

    def wait_for_output(self, text: str) -> None:
        """Wait until it has printed something."""
        wait_until(lambda: text in self.output, lambda: f"{text!r} in the output:\n{self.output}")

    def ended(self, moved: Callable[[], object] = lambda: None) -> int:
        """Wait for its end as long as something moves, and return the exit code.

        A drain is many events, and the deadline is that of one: it fails when neither the consumers' log nor its output
        grew, nor ``moved`` gave another value, which is for consumers that write no log. Who hangs may go on to print
        (a database that comes and goes, children that die again and again), so that this has an end too.
        """
        latest = began = time.monotonic()
        seen: object = None
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(0.5)
            now, sizes = time.monotonic(), [file.stat().st_size for file in (self.log, self._output) if file.exists()]
            if (found := (sizes, moved())) != seen:
                latest, seen = now, found
            if now - latest > PATIENCE or now - began > LONGEST:
                pytest.fail(f"the worker did not end, and last moved {now - latest:.0f} s ago; output:\n{self.output}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor alone."""
        self.process.send_signal(number)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor and its children."""
        os.killpg(self.process.pid, number)

    def end(self) -> None:
        """End whatever is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGCONT)
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class GuardianProcess(WorkerProcess):
    """A real ``queue_rescue``."""

    command = "queue_rescue"


Process = TypeVar("Process", bound=WorkerProcess)


def _started(kind: type[Process], worker_env: dict[str, str], directory: Path) -> Iterator[Callable[..., Process]]:
    processes: list[Process] = []

    def start(*arguments: str, ends: str = "", **environment: str) -> Process:
        processes.append(kind(worker_env | environment, directory, arguments, ends=ends))
        return processes[-1]

    yield start
    for process in processes:
        process.end()


@pytest.fixture
def start_guardian(worker_env: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., GuardianProcess]]:
    """Start guardians on the test database, with more environment where it is said; all are ended with the test."""
    yield from _started(GuardianProcess, worker_env, tmp_path)


@pytest.fixture
def start_worker(worker_env: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Start workers on the test database; all of them are ended with the test."""
    yield from _started(WorkerProcess, worker_env, tmp_path)


@pytest.fixture
def drain(start_worker: Callable[..., WorkerProcess]) -> Callable[..., WorkerProcess]:
    """Run a worker with --drain to its end."""

    def run(*arguments: str, moved: Callable[[], object] = lambda: None) -> WorkerProcess:
        worker = start_worker("--drain", *arguments)
        assert worker.ended(moved) == 0, worker.output
        return worker

    return run
