"""The turns of a worker that rests, by a simulated clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from django_dbqueue.worker import rest, sleepers
from django_dbqueue.worker.handover import Handover
from django_dbqueue.worker.maintenance import CHECK_EVERY
from django_dbqueue.worker.rest import Rest
from django_dbqueue.worker.sleepers import Seat, Sleepers
from django_dbqueue.worker.timetable import Timetable
from tests.worker.clock import Turns


def rest_of(turns: Turns, seat: Seat, *, idle_interval: float | None = None) -> Rest:
    options = replace(turns.options, idle_interval=idle_interval)
    timetable = Timetable(options.session, (), options.declared_at)
    return Rest(seat, options, Handover(turns.holding), turns.maintenance, timetable)


class RestingTurns:
    """The turns of an idle worker's asker."""

    def __init__(
        self, turns: Turns, monkeypatch: pytest.MonkeyPatch, *, idle_interval: float | None = None, children: int = 2
    ) -> None:
        for module in (rest, sleepers):
            monkeypatch.setattr(module, "time", turns.clock)
        self.turns = turns
        self.seat = Sleepers(children).seat(0)
        self.rest = rest_of(turns, self.seat, idle_interval=idle_interval)
        turns.after_each = lambda: self.rest.begin(is_calm=turns.feeder.is_calm and not len(turns.holding))
        turns.go_on(2 * CHECK_EVERY)
        assert self.seat.asks
