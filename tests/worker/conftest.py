from __future__ import annotations

import pytest

from django_dbqueue.worker.pace import LATELY
from tests.worker.clock import Clock, Turns


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(Clock(monkeypatch))


@pytest.fixture
def idle(turns: Turns) -> Turns:
    """Ten seconds without work have passed."""
    turns.go_on(LATELY + 1)
    return turns
