"""Claims that the server commits after the claimer has stopped waiting: found later, and released uncharged.

A child checks after losing a session in the middle of a claim; its supervisor checks after the child's end.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Final

from django_dbqueue.databases import Claim
from django_dbqueue.databases.statement import MAX_IDS, chunks
from django_dbqueue.lifecycle.moves import held_by
from django_dbqueue.lifecycle.settle_many import settle_claims
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import moves_sql
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.holding import Holding

LATE_CLAIM: Final = 5.0
"""Seconds in which the server may still commit a claim whose claimer got no reply."""
_BETWEEN_CHECKS: Final = 0.5


def release_unknown(
    session: DjangoSession, queues: Sequence[str], worker_id: int, known: Collection[Claim] = ()
) -> bool:
    """Release what the table says this worker holds and nobody knows of; return whether there was any."""
    server = session.server
    owned = {*held_by(session, queues, worker_id)}
    found = False
    for part in chunks(sorted(owned - set(known)), MAX_IDS):
        found = bool(settle_claims(session, moves_sql.release(server), part)) or found
    return found


class LateClaims:
    """A child's checks for messages that it claimed without getting the reply."""

    def __init__(
        self, session: DjangoSession, queues: Sequence[str], worker_id: int, holding: Holding, board: Board
    ) -> None:
        self._session = session
        self._queues = queues
        self._worker_id = worker_id
        self._holding = holding
        self._board = board
        self._until = 0.0
        self._check_at = float("inf")

    @property
    def are_expected(self) -> bool:
        """Return whether a claim may still be committed."""
        return self._check_at != float("inf")

    def check(self) -> None:
        """Check in a new session, and keep checking if the last one was lost in the middle of a claim."""
        self._release()
        if self._board.is_claiming:
            self._until = time.monotonic() + LATE_CLAIM
            self._check_at = time.monotonic() + _BETWEEN_CHECKS

    def run(self, now: float) -> None:
        """Check again if it is time to."""
        if now >= self._check_at:
            self._release()
            self._check_at = now + _BETWEEN_CHECKS if now < self._until else float("inf")

    def until_next(self, now: float) -> float:
        """Return how many seconds remain until the next check."""
        return self._check_at - now

    def _release(self) -> None:
        known = [delivery.claim for delivery in self._holding.snapshot()]
        release_unknown(self._session, self._queues, self._worker_id, known)
