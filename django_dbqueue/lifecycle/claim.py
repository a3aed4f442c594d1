"""The claim: n → run, one bounded range of the index ``dbqueue_claim`` per priority, highest first.

Who asks gets the first due rows in the order priority, due time, id among those that it can see, and
each row goes to one asker: rows are locked as they are found, and locked ones are skipped (promise P4). When two
ask at once, each gets rows that the other doesn't; neither waits. The token, drawn before the claim, is the
fence by which everything later is proven (promise P5).
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from django.db import connections

from django_dbqueue import signals
from django_dbqueue.databases import dialect_of
from django_dbqueue.lifecycle.recording import blamed
from django_dbqueue.lifecycle.settle import Short, settle_claims
from django_dbqueue.lifecycle.statements import Ahead, MessageType, ahead_of_the_first, fetch, run, short_transaction
from django_dbqueue.lifecycle.taking import Claimed, Place, take_range
from django_dbqueue.retry import is_passing, outermost
from django_dbqueue.statuses import NEW

HIGHEST = 32_767
RESCAN_SECONDS = 1.0
RESCAN_SHARE = 20
"""A look from the beginning costs at most one part in so many of a worker's time."""
DEAR = 0.005
"""Seconds that a look may take for the next one to come as soon as a claim comes back short."""
DEAR_EACH = 0.000_05
"""Seconds that it may take more for each row that it takes."""
PUT_OFF_MOST = 30.0
"""Seconds for which a look is put off at most, however dear the last one was: some only had to wait for others."""
WAITED_SHARE = 0.1
"""Of the lease: for longer a claim may not have been on its way together with acks, which wait for locks."""
MARKS_KEPT = 8
"""The marks of so many priorities outlast a look that was dear and found nothing there."""
SPENT_BEFORE = (
    "ReadsSpent: all reads were charged before this claim (the row was changed by hand); it was not delivered."
)


def new_token() -> int:
    """Return a random 63-bit number, never 0."""
    return secrets.randbelow(2**63 - 1) + 1


def priorities_in_use(using: str, queue: str, status: str) -> list[int]:
    """Return the priorities of a queue's rows in this status, highest first: one index entry read for each."""
    dialect = dialect_of(connections[using])
    found: list[int] = []
    while rows := fetch(using, dialect.next_priority(queue, status, found[-1] if found else HIGHEST)):
        found.append(int(rows[0][0]))
    return found


class Beside(Protocol):
    """What shares a claim's transaction, and so its commit."""

    def send(self) -> Ahead | None:
        """Return what goes into that transaction, if anything does; again, where that begins anew. It may be Short."""

    def committed(self) -> None:
        """Learn that it is done."""

    def undone(self) -> None:
        """Learn that the server rolled it back, and that it is sent again with the claim."""

    def refused(self) -> None:
        """Learn that it was undone: what is to be done of it must be done now, in a transaction of its own."""


@dataclass(slots=True)
class Claimer:
    """Claims from one queue, again and again, remembering where it stood.

    Claimed rows stay as delete-marked index entries until the server purges them, and a locking read walks
    them all; so a range starts behind the last row claimed (the low-water mark). Rows that came in below it (late
    commits, retries, releases) are found by a look from the beginning: whenever a claim comes back short, and
    once a second otherwise, but never for more than a twentieth of the time where looks are dear. They are while an
    old transaction keeps the server from purging, or the server is far away; what comes in then is found behind the
    marks.
    """

    model: MessageType
    using: str
    queue: str
    worker_id: int | None = None
    most_bytes: int | None = None
    """A body of more is left in the database (``taking.read_body``)."""
    saw_all: bool = False
    """Whether the last look was one from the beginning, so that a short answer means that no more is due."""
    _marks: dict[int, tuple[Any, int]] = field(default_factory=dict)
    _priorities: list[int] = field(default_factory=list)
    _look_again_at: float = 0.0
    _look_not_before: float = 0.0
    _cost: float = 0.0

    def learn(self, priorities: Collection[int]) -> None:
        """Ask at these priorities too, where the look that would find them is put off."""
        if self._look_not_before and not set(self._priorities).issuperset(priorities):
            self._priorities = sorted({*self._priorities, *priorities}, reverse=True)

    def claim(self, limit: int, *, lease: float, max_reads: int) -> list[Any]:
        """Return up to ``limit`` claimed messages, in order; if fewer, and it ``saw_all``, no more was due."""
        return [claimed.message for claimed in self.take(limit, lease=lease, max_reads=max_reads)]

    def take(self, limit: int, *, lease: float, max_reads: int, beside: Beside | None = None) -> list[Claimed]:
        """Claim, and leave it to who handles them to make the messages.

        ``beside`` is what may go into the same transaction; it goes by itself where there is none, or it is Short.
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
        """Return what was claimed, and what was buried: rows written by SQL that had no read left."""
        began = time.monotonic()
        self.saw_all = began >= self._look_again_at
        if self.saw_all:
            self._priorities = priorities_in_use(self.using, self.queue, NEW)
        self._cost = time.monotonic() - began
        marks = {} if self.saw_all else dict(self._marks)
        taken, spent = self._take(limit, lease, max_reads, marks, beside) if self._priorities else ([], [])
        self._remember(marks, began, len(taken), is_full=len(taken) == limit)
        return [each for each in taken if each not in spent] if spent else taken, spent

    def _take(
        self, limit: int, lease: float, max_reads: int, marks: dict[int, tuple[Any, int]], beside: Beside | None
    ) -> tuple[list[Claimed], list[Claimed]]:
        """Return what was claimed behind the marks, which move on, and what of it was buried."""
        token = new_token()
        taken: list[Claimed] = []
        with short_transaction(self.using, saves_a_journey=True), self._sending(beside, lease):
            began = time.monotonic()  # what went before waits for locks, and the commit for a disk: it was no look
            for priority in self._priorities:
                if len(taken) < limit:
                    taken += self._claim_range(priority, limit - len(taken), token, lease, max_reads, marks)
            self._cost += time.monotonic() - began
            spent = [each for each in taken if 0 < each.max_reads < each.read_count]
            if spent:
                change = dialect_of(connections[self.using]).bury(SPENT_BEFORE)
                settle_claims(self.using, blamed(self.using, change, [self.queue]), [each.claim for each in spent])
        if beside is not None:
            beside.committed()
        return taken, spent

    def _sending(self, beside: Beside | None, lease: float) -> AbstractContextManager[None]:
        """Send what shares the transaction: with the claim's first statement, unless it is a look's, which is timed."""
        ahead = None if beside is None else beside.send()
        if ahead is None:
            return nullcontext()
        if self.saw_all:
            ahead.check(run(self.using, ahead.statement))
            return nullcontext()
        began = time.monotonic()

        def check(matched: int) -> None:
            ahead.check(matched)
            # PostgreSQL's clock stands still for statements that are sent together: the leases began with the acks
            if time.monotonic() - began > WAITED_SHARE * lease:
                raise Short

        return ahead_of_the_first(self.using, ahead._replace(check=check))

    def _remember(self, marks: dict[int, tuple[Any, int]], began: float, taken: int, *, is_full: bool) -> None:
        """Keep the marks, and when to look from the beginning again."""
        if self.saw_all:
            is_dear = self._cost > DEAR + DEAR_EACH * taken
            self._look_not_before = began + min(RESCAN_SHARE * self._cost, PUT_OFF_MOST) if is_dear else 0.0
            self._look_again_at = max(self._look_not_before, began + RESCAN_SECONDS)
            if is_dear and not is_full:
                marks = self._furthest(marks)
                self._priorities = sorted({*self._priorities, *marks}, reverse=True)
        self._marks = marks
        if not is_full:
            self._look_again_at = self._look_not_before if self._priorities else 0.0

    def _furthest(self, marks: dict[int, tuple[Any, int]]) -> dict[int, tuple[Any, int]]:
        """Return these marks of a look that saw all, or the older ones where those are further on, or alone."""
        furthest = dict(self._marks)
        for priority, mark in marks.items():
            furthest[priority] = max(mark, furthest.pop(priority, mark))
        return dict(list(furthest.items())[-MARKS_KEPT:])

    def _claim_range(
        self,
        priority: int,
        limit: int,
        token: int,
        lease: float,
        max_reads: int,
        marks: dict[int, tuple[Any, int]],
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
    """Claim this one message, due or not; None where it isn't waiting. For tests, which need one in a certain state."""
    dialect = dialect_of(connections[using])
    token = new_token()
    session = None if dialect.session_id else os.getpid()
    change = dialect.take(token=token, worker_id=None, session=session, lease=lease, max_reads=max_reads, now=None)
    if outermost(connections[using], lambda: run(using, dialect.take_ids([message_id], change))) != 1:
        return None
    message: Any = model._default_manager.using(using).get(pk=message_id)
    message.held_token = token
    return message
