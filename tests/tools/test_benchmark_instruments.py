"""What tracing costs is measured of what it does, and not of what it fails to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import patience

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]
FAILING = """
from types import SimpleNamespace
from benchmarks import instruments

instruments.MESSAGES = 2
instruments._delivery = lambda *_: SimpleNamespace()
instruments.measure("api")
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience(120), check=False)


def test_each_operation_is_measured_and_nothing_fails() -> None:
    off, on = (python("-m", "benchmarks.instruments", mode) for mode in ("off", "metrics"))
    assert [(each.returncode, each.stderr) for each in (off, on)] == [(0, "")] * 2
    without, recorded = json.loads(off.stdout), json.loads(on.stdout)
    assert list(recorded) == ["enqueue", "enqueue_many", "run", "ack", "bare span"]
    assert [name for name in recorded if recorded[name] <= without[name]] == []


def test_an_instrument_that_fails_ends_the_measurement() -> None:
    ended = python("-c", FAILING)
    assert ended.returncode == 1
    assert "an instrument failed" in ended.stderr
    assert "has no attribute 'consumer'" in ended.stderr
