from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.servers import pytest_process

PLUGINS = ("no:django", "no:dbqueue", "tests.servers.recorder", "tests.alarm")


@pytest.fixture(autouse=True)
def _counts_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a suite that is run here counts, its failures too, is not the gate's."""
    for name in ("DBQUEUE_TEST_TOTALS", "DBQUEUE_TEST_TABLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose suite is run as this one's."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setattr(pytest_process, "ROOT", tmp_path)
    plugins = [word for plugin in PLUGINS for word in ("-p", plugin)]
    monkeypatch.setattr(pytest_process, "COMMAND", (sys.executable, "-m", "pytest", "-q", *plugins))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path
