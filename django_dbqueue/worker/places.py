"""A supervisor's children: who works in each place, who retires from it, and whom nothing but SIGKILL can end."""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from django_dbqueue.states.counts import counted
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.pace import Backoff

LINE_GRACE: Final = 0.2
"""Seconds in which a child that closed its line by ending must end. One that lives on is broken."""

logger = logging.getLogger("django_dbqueue.worker")


@dataclass(slots=True, eq=False)
class Child:
    """A child process; ``process`` is None after its end."""

    index: int
    process: Any
    board: Board
    worker_id: int
    started_at: float
    line_lost_at: float | None = None
    is_killed: bool = False
    """A handler ran on past its timeout, and the supervisor killed it all."""


@dataclass(slots=True)
class ChildPlace:
    """A place for a child process: who works there, and the state of its restarts.

    ``retired`` is a child that works no more there. Until all that it held is settled, no other retires.
    """

    index: int
    share: int | None
    child: Child | None = None
    retired: Child | None = None
    board: Board | None = None
    """That of the latest child."""
    retired_at: float = 0.0
    report_at: float = 0.0
    start_at: float = 0.0
    is_finished: bool = False
    barren: int = 0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.1, 30.0))

    @property
    def children(self) -> list[Child]:
        """Return its children; a retired one may have ended."""
        return [child for child in (self.child, self.retired) if child is not None]

    def retire(self, patience: float) -> None:
        """Make way for a successor if its child retires; report it if it still runs after ``patience`` seconds.

        Where the number of messages is limited, the successor has to know how many are left: it waits.
        """
        if self.child is None or self.retired is not None or self.share is not None:
            return
        if self.child.board.retirement:
            self.retired, self.child = self.child, None
            self.retired_at = time.monotonic()
            self.start_now()
            self.report_at = self.retired_at + patience

    def start_now(self) -> None:
        """Let another child start, however long earlier forks that failed would have it wait."""
        self.backoff.reset()
        self.start_at = min(self.start_at, time.monotonic())

    def report(self, now: float) -> None:
        """Name what a retired child still runs, after twice as long each time."""
        if self.retired is None or self.retired.process is None or now < self.report_at:
            return
        self.report_at = now + max(1.0, now - self.retired_at)
        running = sorted(claim.id for claims in self.retired.board.claims_by_state().values() for claim in claims)
        if not running:  # it is about to end
            return
        logger.warning(
            "child %s retired %.0f s ago, and its process %s still runs %s: %s. Its successor works, but has "
            "no successor itself until that one has ended. Give handlers that may hang a timeout",
            self.index, now - self.retired_at, self.retired.process.pid, counted(len(running), "message"),
            ", ".join(map(str, running)),
            extra={"event": "retired_still_runs", "fields": {"message_ids": running}},
        )  # fmt: skip


def end_the_broken(children: Iterable[Child]) -> None:
    """Kill a child that lives on without its line: a handler has closed descriptors, the database's among them."""
    for child in children:
        if child.line_lost_at is None or child.process.exitcode is not None:
            continue
        if time.monotonic() - child.line_lost_at > LINE_GRACE:
            logger.error(
                "child %s has closed file descriptors that its handler didn't open, and is killed (does a "
                "handler call os.closerange?)",
                child.index,
            )
            os.kill(child.process.pid, signal.SIGKILL)
            child.line_lost_at = math.inf


def end_the_overdue(children: Iterable[Child], moment: float) -> None:
    """Kill a child whose hung handler keeps it from ending: no other thread gets to run, or SQLite stays locked.

    ``moment``: the child should have ended if a timeout had passed by then.
    """
    for child in children:
        if not child.board.is_leaving and child.board.is_overdue(moment):
            logger.warning("child %s can't stop a handler that ran past its timeout, and is killed", child.index)
            child.board.note_leaving()
            child.is_killed = True
            os.kill(child.process.pid, signal.SIGKILL)
