"""The claim: n → run, one bounded range of the index ``dbqueue_claim`` per priority, highest first.

A claimer gets the first due rows that it can see, ordered by priority, due time and id. Each row goes to one claimer:
rows are locked as they are found, and locked ones are skipped (promise P4). When two claim at once, they get different
rows, and neither waits. The token, drawn before the claim, is the fence that everything later is checked against
(promise P5).
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from django.db import connections

from django_dbqueue import low_water, signals
from django_dbqueue.databases import dialect_of
from django_dbqueue.databases.words import SPENT_BEFORE
from django_dbqueue.lifecycle.recording import blamed
from django_dbqueue.lifecycle.settle import Short, settle_claims
from django_dbqueue.lifecycle.statements import Ahead, MessageType, ahead_of_the_first, fetch, run, short_transaction
from django_dbqueue.lifecycle.taking import Claimed, Place, take_range
from django_dbqueue.low_water import LowWater, Marks
from django_dbqueue.retry import is_passing, outermost
from django_dbqueue.statuses import NEW

WAITED_SHARE = 0.1
"""Share of the lease that a claim sent together with acks, which wait for locks, may take."""


def new_token() -> int:
    """Return a random 63-bit number, never 0."""
    return secrets.randbelow(2**63 - 1) + 1


def priorities_in_use(using: str, queue: str, status: str) -> list[int]:
    """Return the priorities of a queue's rows in this status, highest first."""
    return low_water.priorities_in_use(partial(fetch, using), dialect_of(connections[using]), queue, status)


class Beside(Protocol):
    """What shares a claim's transaction, and therefore its commit."""

    def send(self) -> Ahead | None:
        """Return what goes into that transaction, if anything; called again on a restart. Its check may raise Short."""

    def committed(self) -> None:
        """Note that the transaction committed."""

    def undone(self) -> None:
        """Note that the server rolled it back, and that it is being sent again with the claim."""

    def refused(self) -> None:
        """Note that it was undone: what it was to do must be done now, in a transaction of its own."""


@dataclass(slots=True)
class Claimer:
    """A repeated claimer of one queue that remembers where it stood (``low_water``)."""

    model: MessageType
    using: str
    queue: str
    worker_id: int | None = None
    most_bytes: int | None = None
    """A larger body is left in the database (``taking.read_body``)."""
    low_water: LowWater = field(default_factory=LowWater)

    def claim(self, limit: int, *, lease: float, max_reads: int) -> list[Any]:
        """Return up to ``limit`` claimed messages, in order; if fewer, and ``low_water.saw_all``, no more was due."""
        return [claimed.message for claimed in self.take(limit, lease=lease, max_reads=max_reads)]

    def take(self, limit: int, *, lease: float, max_reads: int, beside: Beside | None = None) -> list[Claimed]:
        """Claim, and leave it to the handling thread to build the messages.

        ``beside`` is what may go into the same transaction. The claim goes alone if there is none, or if it is Short.
        """
        taken: list[Claimed] = []
        while True:
            ask = partial(self._claim, limit - len(taken), lease, max_reads, beside)
            try:
                claimed, spent = outermost(connections[self.using], ask, passing=partial(_passes, beside))
            except Short:
                assert beside is not None
                beside.refused()
                beside = None
                continue
            taken += claimed
            if not spent:
                return taken
            for each in spent:
                signals.message_died.send(self.model, queue=self.queue, message_id=each.claim.id, error=SPENT_BEFORE)

    def _claim(
        self, limit: int, lease: float, max_reads: int, beside: Beside | None
    ) -> tuple[list[Claimed], list[Claimed]]:
        """Return what was claimed, and what was buried: rows written by SQL that had no reads left."""
        marks = self.low_water.begin(lambda: priorities_in_use(self.using, self.queue, NEW))
        taken, spent = self._take(limit, lease, max_reads, marks, beside) if self.low_water.priorities else ([], [])
        self.low_water.end(marks, len(taken), is_full=len(taken) == limit)
        return [each for each in taken if each not in spent] if spent else taken, spent

    def _take(
        self, limit: int, lease: float, max_reads: int, marks: Marks, beside: Beside | None
    ) -> tuple[list[Claimed], list[Claimed]]:
        """Return what was claimed after the marks, which advance, and which of it was buried."""
        token = new_token()
        taken: list[Claimed] = []
        with short_transaction(self.using, saves_a_journey=True), self._sending(beside, lease):
            with self.low_water.reading():
                for priority in self.low_water.priorities:
                    if len(taken) < limit:
                        taken += self._claim_range(priority, limit - len(taken), token, lease, max_reads, marks)
            spent = [each for each in taken if 0 < each.max_reads < each.read_count]
            if spent:
                change = dialect_of(connections[self.using]).messages.bury(SPENT_BEFORE)
                settle_claims(self.using, blamed(self.using, change, [self.queue]), [each.claim for each in spent])
        if beside is not None:
            beside.committed()
        return taken, spent

    def _sending(self, beside: Beside | None, lease: float) -> AbstractContextManager[None]:
        """Send what shares the transaction with the claim's first statement, or before it where that one is timed."""
        ahead = None if beside is None else beside.send()
        if ahead is None:
            return nullcontext()
        if self.low_water.saw_all:
            ahead.check(run(self.using, ahead.statement))
            return nullcontext()
        began = time.monotonic()

        def check(matched: int) -> None:
            ahead.check(matched)
            # PostgreSQL's clock stands still for statements sent together, so the leases began with the acks
            if time.monotonic() - began > WAITED_SHARE * lease:
                raise Short

        return ahead_of_the_first(self.using, ahead._replace(check=check))

    def _claim_range(
        self,
        priority: int,
        limit: int,
        token: int,
        lease: float,
        max_reads: int,
        marks: Marks,
    ) -> list[Claimed]:
        how = {"token": token, "worker_id": self.worker_id, "lease": lease, "max_reads": max_reads}
        place = Place(self.model, self.using, self.queue, priority, self.most_bytes)
        taken, mark = take_range(place, limit, marks.get(priority), how)
        if mark is not None:
            marks[priority] = mark
        return taken


def _passes(beside: Beside | None, error: BaseException) -> bool:
    passes = is_passing(error)
    if passes and beside is not None:
        beside.undone()
    return passes


def claim_by_id(model: MessageType, using: str, message_id: int, *, lease: float, max_reads: int) -> Any | None:
    """Claim this one message, due or not; return None if it isn't waiting. For tests that need a certain state."""
    dialect = dialect_of(connections[using])
    token = new_token()
    session = None if dialect.sql.session_id else os.getpid()
    change = dialect.claims.take(
        token=token, worker_id=None, session=session, lease=lease, max_reads=max_reads, now=None
    )
    if outermost(connections[using], lambda: run(using, dialect.claims.take_ids([message_id], change))) != 1:
        return None
    message: Any = model._default_manager.using(using).get(pk=message_id)
    message.held_token = token
    return message
