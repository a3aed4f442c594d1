"""A real `run_queue_worker` beside the benchmark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from tests.servers.lifeline import ends_with_its_starter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.queue.bench import Bench

_GRACE_SECONDS: Final = 40


class RunningWorker:
    """The worker's supervisor and its children, in a process group of their own."""

    def __init__(self, bench: Bench, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
        self.log = bench.directory / f"worker-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "django", "run_queue_worker", *arguments],
                env=bench.environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=ends_with_its_starter(signal.SIGTERM),
            )

    def still_alive(self) -> None:
        """Fail when it has ended."""
        if self.process.poll() is not None:
            raise AssertionError(f"the worker ended by {self.process.returncode}:\n{self.log.read_text()[-3000:]}")

    def stop(self) -> None:
        """As an operator does it; what it held is released. It must not have had a trouble to tell of."""
        self.process.terminate()
        code = self.process.wait(_GRACE_SECONDS)
        log = self.log.read_text()
        if code or "Traceback" in log or "ERROR" in log or "WARNING" in log:
            raise AssertionError(f"the worker ended by {code}, and had logged errors:\n{log[-3000:]}")


@contextmanager
def worker(bench: Bench, *arguments: str, **environment: str) -> Iterator[RunningWorker]:
    """One that runs until the block ends."""
    running = RunningWorker(bench, arguments, environment)
    try:
        yield running
        running.stop()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()
