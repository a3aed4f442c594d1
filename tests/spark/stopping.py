"""What tests stop, kill and start: servers and drivers; and what they write in the meantime."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from tests.conftest import ROOT
from tests.patience import patience
from tests.servers.private import PrivateServer

PATIENCE = patience(240)
"""Seconds for a program on Spark to start and do its part, on a busy machine."""


class Driver:
    """A program of ``tests/spark/drivers`` in a session of its own; its Python workers outlive driver and JVM for a
    moment."""

    def __init__(self, name: str, place: Path, *arguments: str) -> None:
        self.log = place / "driver.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"tests.spark.drivers.{name}", str(place), *arguments],
                cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            )  # fmt: skip

    def kill(self) -> None:
        """End driver and JVM at once."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def is_dead(self) -> bool:
        return self.process.poll() is not None


class Outage(logging.Handler):
    """Stops the server, or crashes it, and starts it again once its client has retried a few times.

    In the thread that tries on: a server of these tests ends with the thread that has started it.
    """

    TRIES = 3

    def __init__(self, server: PrivateServer, *, crash: bool = False) -> None:
        super().__init__()
        self.server = server
        self.crash = crash
        self.begun = 0
        self.tried = 0

    def begin(self) -> None:
        self.begun += 1
        (self.server.kill if self.crash else self.server.stop)()

    def emit(self, record: logging.LogRecord) -> None:
        if "away, retrying" in record.getMessage():
            self.tried += 1
            if self.tried == self.TRIES:
                self.server.start()


def frame(numbers: range, in_between: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    """Rows in Arrow batches; between two of them something happens."""
    middle = numbers[len(numbers) // 2]
    for number in numbers:
        if number == middle:
            in_between()
        yield pa.RecordBatch.from_pydict({"json": [str(number)]})
