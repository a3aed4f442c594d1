"""Claims that the server commits after their claimer has stopped waiting: released, uncharged, by who looks for them.

A child looks after it has lost a session in the middle of a claim, its supervisor after the child's end.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Final

from django.db import connections

from django_dbqueue.databases import Claim, dialect_of
from django_dbqueue.lifecycle.settle import settle_claims
from django_dbqueue.lifecycle.statements import MAX_IDS, chunks, fetch
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.holding import Holding

LATE_CLAIM: Final = 5.0
"""Seconds in which the server may commit a claim whose claimer heard no reply."""
_BETWEEN_LOOKS: Final = 0.5


def release_unknown(using: str, queues: Sequence[str], worker_id: int, known: Collection[Claim] = ()) -> bool:
    """Release what the table says that this worker holds and nobody knows of; say whether there was any."""
    dialect = dialect_of(connections[using])
    owned = {Claim(*row) for row in fetch(using, dialect.owned(queues, worker_id))}
    found = False
    for part in chunks(sorted(owned - set(known)), MAX_IDS):
        found = bool(settle_claims(using, dialect.release(), part)) or found
    return found


class LateClaims:
    """A child's looks for what it has claimed without hearing of it."""

    def __init__(self, using: str, queues: Sequence[str], worker_id: int, holding: Holding, board: Board) -> None:
        self._using = using
        self._queues = queues
        self._worker_id = worker_id
        self._holding = holding
        self._board = board
        self._until = 0.0
        self._look_at = float("inf")

    @property
    def are_expected(self) -> bool:
        """Whether a claim may still be committed."""
        return self._look_at != float("inf")

    def look(self) -> None:
        """Look in a new session, and go on looking where the last one was lost in the middle of a claim."""
        self._release()
        if self._board.is_claiming:
            self._until = time.monotonic() + LATE_CLAIM
            self._look_at = time.monotonic() + _BETWEEN_LOOKS

    def run(self, now: float) -> None:
        """Look again if it is time to."""
        if now >= self._look_at:
            self._release()
            self._look_at = now + _BETWEEN_LOOKS if now < self._until else float("inf")

    def until_next(self, now: float) -> float:
        """How many seconds it is to the next look."""
        return self._look_at - now

    def _release(self) -> None:
        known = [delivery.claim for delivery in self._holding.snapshot()]
        release_unknown(self._using, self._queues, self._worker_id, known)
