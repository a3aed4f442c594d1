"""Producers, archivers, a maintainer and a purger, all at work on one history at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import patience
from tests.systems.historian import SHARE

PRODUCERS = 2
OTHERS = ("archiver", "archiver", "maintainer", "purger")
PATIENCE = patience(120)
MESSAGES = PRODUCERS * SHARE


@contextmanager
def ready(environment: dict[str, str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Producers first; all of them are ready, and wait for the word."""
    environment = environment | {"DBQUEUE_TEST_SETTINGS": json.dumps({"DEFAULTS": {"dead_retention": 0}})}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.systems.historian", role],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for role in ("producer",) * PRODUCERS + OTHERS
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def let_go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
