"""The row of a living worker is never late by its own word."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_dbqueue.liveness.late_workers import BEAT_HOLDING, BEAT_IDLE
from django_dbqueue.liveness.presence import SLACK
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.heartbeat import Heartbeat
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.sleepers import Sleepers
from tests.worker.clock import Clock


class Row:
    """In place of the worker's row: when it was beaten, and what it promised."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.beats: list[tuple[float, int]] = []
        self.promised = BEAT_HOLDING

    def beat(self, *, held: int, every: int) -> None:
        assert held == 0
        self.beats.append((self._clock.now, every))
        self.promised = every


def test_who_turns_to_slow_beats_keeps_the_promise_of_a_quick_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    row: Any = Row(clock)
    heartbeat = Heartbeat(DjangoSession("default"), row, Holding(Board(1)), Sleepers(1).seat(0), orphaned=lambda: None)
    for _ in range(60 * 50):
        heartbeat._beat_if_due()
        clock.now += timedelta(milliseconds=20).total_seconds()
    assert {every for _, every in row.beats} == {BEAT_HOLDING, BEAT_IDLE}
    for (moment, promised), (next_moment, _) in zip(row.beats, row.beats[1:], strict=False):
        assert next_moment - moment < promised + SLACK
