"""Pytest as a process of its own, on one database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tests.patience import patience
from tests.servers.lifeline import ends_with_its_starter

ROOT = Path(__file__).resolve().parents[2]
# The files keep the order of tests/conftest.py: pytest-xdist would begin with those of the most tests.
COMMAND = (sys.executable, "-m", "pytest", "-q", "--no-loadscope-reorder", "-p", "tests.servers.recorder")
# A suite that a test starts is another one: it gives its own database a name, and would wait for its starter's end.
OWN = {"DBQUEUE_TEST_NAME", "DBQUEUE_TEST_RUN", "DBQUEUE_TEST_ALONE"}
# Past this something hangs; pytest has said where by then (faulthandler_timeout).
LIMIT_SECONDS = patience(40 * 60)


def run_pytest(database: str, url: str, arguments: Sequence[str]) -> int:
    """Run it to its end, and return its exit code; -1 if it came to none."""
    with started_pytest(database, url, arguments) as process:
        return ended(process, database)


@contextmanager
def started_pytest(
    database: str, url: str, arguments: Sequence[str], output: IO[bytes] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start it; whatever is left of it at the end of the block is stopped."""
    environ = {name: value for name, value in os.environ.items() if name not in OWN} | {
        "DBQUEUE_TEST_DATABASE": database,
        "DBQUEUE_TEST_URL": url,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
    }
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=environ,
        stdout=output,
        stderr=output,
        preexec_fn=ends_with_its_starter(signal.SIGINT),
    )
    try:
        yield process
    finally:
        _interrupt(process)


def ended(process: subprocess.Popen[bytes], database: str) -> int:
    """Wait for its end, and return its exit code; -1 if it came to none."""
    try:
        return process.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"=== {database}: stopped after {LIMIT_SECONDS} s", flush=True)
        return -1


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Lets pytest take its test database away; without effect on one that has ended."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience(30))
    process.kill()
    process.wait()
