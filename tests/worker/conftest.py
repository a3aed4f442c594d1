from __future__ import annotations

import pytest

from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.pace import LATELY
from django_dbqueue.worker.settler import Settler
from tests.lifecycle.conftest import removing
from tests.worker.clock import Clock, Turns

__all__ = ["removing"]


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(Clock(monkeypatch))


@pytest.fixture
def idle(turns: Turns) -> Turns:
    """Ten seconds without work have passed."""
    turns.go_on(LATELY + 1)
    return turns


@pytest.fixture
def board() -> Board:
    return Board(20)


@pytest.fixture
def settler(board: Board) -> Settler:
    return Settler(session_of("default"), Holding(board), board)
