"""Reporting queues with messages but no consumer here, in a thread of one child, so that nothing waits for it."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from django.db import Error

from django_dbqueue import conf
from django_dbqueue.consumers.near_queues import near_queue
from django_dbqueue.consumers.registry import registered
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.ranges_in_use import unserved
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.sleepers import Seat
from django_dbqueue.worker.thread_connections import discard_all

CHECK_EVERY: Final = 30.0
"""Seconds between checks."""
SHARE: Final = 100
"""An expensive check takes at most 1/SHARE of the time."""
NAMED: Final = 10

logger = logging.getLogger("django_dbqueue.worker")


class UnservedQueues(threading.Thread):
    """A thread that reports once per such queue that its messages stay, however often its child is replaced.

    Its session is open only during a check.
    """

    def __init__(self, session: DjangoSession, board: Board, seat: Seat) -> None:
        super().__init__(name="dbqueue-strays", daemon=True)
        self._session = session
        self._board = board
        self._seat = seat
        self._named: set[str] = set()
        self._over = threading.Event()

    def stop(self) -> None:
        """Stop checking; a check in progress ends with the process."""
        self._over.set()

    def run(self) -> None:
        """Check from time to time."""
        rest = 0.0
        while not self._over.wait(rest) and not self._board.retirement:
            began = time.monotonic()
            rest = CHECK_EVERY * self._seat.spread
            try:
                self._check()
                rest = max(rest, SHARE * (time.monotonic() - began))
            except Error as error:  # the time was spent waiting
                logger.debug("can't look for queues without consumers: %s", error)
            finally:
                discard_all()

    def _check(self) -> None:
        served = {*registered(), conf.get("OPERATIONS_QUEUE")}
        rows = self._session.fetch(unserved(self._session.server, sorted(served)))
        new = sorted({str(name) for (name,) in rows} - self._named)
        is_first = not self._named
        self._named.update(new)
        if not new or (is_first and len(new) <= self._board.unserved_named):
            return  # the child before this one has reported them
        more = f" and {len(new) - NAMED} more" if len(new) > NAMED else ""
        logger.warning(
            "%s %s messages but no consumer registered here, so the messages stay there: %s%s",
            len(new), "queue has" if len(new) == 1 else "queues have", ", ".join(map(_shown, new[:NAMED])), more,
            extra={"event": "strays", "fields": {"count": len(new), "queues": new[:NAMED]}},
        )  # fmt: skip
        # Last: if a child is killed on the way, the next one logs the line.
        self._board.unserved_named = len(self._named)


def _shown(name: str) -> str:
    near = near_queue(name)
    return name if near is None else f"{name} (did you mean {near}?)"
