"""What it takes to add a server: one file, whose lines are counted, and no change of any other."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import patience

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]
FIFTH = ROOT / "tests" / "databases" / "fifth" / "base.py"
MOST = 12
"""Lines, without those of its docstrings and between its parts."""
FILES = [
    *(
        f"tests/lifecycle/test_{each}.py"
        for each in (
            *("archive", "enqueue", "enqueue_refused", "events", "max_reads", "on_conflict"),
            *("rescue", "settle", "settle_many"),
        )
    ),
    "tests/operations/test_operators.py",
    "tests/states/test_depths.py",
    "tests/steps/test_sleeps.py",
    "tests/steps/test_waits.py",
]
"""Some that don't ask which server they are on."""


def test_a_fifth_server_takes_one_file_of_at_most_twenty_lines() -> None:
    text = FIFTH.read_text()
    assert set(re.findall(r"django_dbqueue\.(\w+)", text)) == {"databases"}
    assert len([line for line in text.splitlines() if line.strip() and not line.strip().startswith('"""')]) <= MOST


def test_the_lifecycle_runs_on_it() -> None:
    environment = os.environ | {
        "DBQUEUE_TEST_DATABASE": "sqlite",
        "DBQUEUE_TEST_RUN": secrets.token_hex(4),
        "DJANGO_SETTINGS_MODULE": "tests.databases.fifth.settings",
    }
    environment.pop("DBQUEUE_TEST_URL", None)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--ds", environment["DJANGO_SETTINGS_MODULE"], *FILES]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patience(300), check=False
    )
    assert ended.returncode == 0, ended.stdout[-4000:]
    assert " passed" in ended.stdout
