"""A clock that a test turns, and a worker's turns by it: what a child's main thread does when nothing wakes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.claims import claim as claims
from django_dbqueue.consumers.registry import Consumer, largest_batch
from django_dbqueue.lifecycle import claimer
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker import feeder, heartbeat, pace
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.feeder import Feeder
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.maintenance import Maintenance
from django_dbqueue.worker.settler import Settler
from django_dbqueue.worker.worker_options import WorkerOptions
from tests.factories import QUEUE

_TRANSACTION = ("BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "SET ")
NOTICED = 1.0
"""Seconds within which an idle worker acts on what it can see."""


class Clock:
    """Stands in for ``time`` in the modules that decide when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        for module in (claimer, claims, feeder, pace, heartbeat):
            monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return self.now

    time = monotonic


class Turns:
    """Maintenance and feeding of a worker whose handlers never begin."""

    def __init__(self, clock: Clock, *others: Consumer, batch: int = 400) -> None:
        self.clock = clock
        self.unready: frozenset[str] = frozenset()
        self.after_each: Callable[[], object] = lambda: None
        consumers = {each.queue: each for each in (Consumer(QUEUE, lambda _message: None), *others)}
        queues = tuple(consumers)
        self.options = options = WorkerOptions(
            session_of("default"),
            queues,
            datetime.now(UTC),
            batch=batch,
            largest_batch=largest_batch(consumers.values()),
        )
        board = Board(options.slots)
        self.holding = Holding(board)
        self.settler = Settler(session_of("default"), self.holding, board)
        self.maintenance = Maintenance(session_of("default"), queues)
        self.feeder = Feeder(
            options,
            consumers,
            self.holding,
            1,
            None,
            idle_poll=self.maintenance.idle_poll,
            settler=self.settler,
            before_begin=lambda _number: None,
            unready=lambda: self.unready,
        )

    def feed(self, *unready: str) -> list[Delivery]:
        """Claim what is wanted, with the acks that wait beside; return what must be released."""
        self.unready = frozenset(unready)
        self.feeder.run(self.clock.now)
        released, self.settler._unstarted = self.settler._unstarted, []
        return released

    def go_on(self, seconds: float, until: Callable[[], Any] = lambda: False) -> float:
        """Turn for so long, or until it is so; return for how long."""
        began = self.clock.now
        while (now := self.clock.now) < began + seconds:
            self.maintenance.run(now)
            self.feed()
            self.after_each()
            if until():
                break
            self.clock.now += max(0.001, min(self.feeder.until_next(now), self.maintenance.until_next(now)))
        return self.clock.now - began


@contextmanager
def statements() -> Iterator[list[str]]:
    """The statements that are run meanwhile, but for the control of transactions."""
    found: list[str] = []
    with CaptureQueriesContext(connection) as queries:
        yield found
    found += [query["sql"] for query in queries if not query["sql"].startswith(_TRANSACTION)]
