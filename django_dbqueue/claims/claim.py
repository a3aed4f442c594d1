"""The claim: n → run, one bounded range of the index ``dbqueue_claim`` per priority, highest first.

A claimer gets the first due rows that it can see, ordered by priority, due time and id. Each row goes to one claimer:
rows are locked as they are found, and locked ones are skipped (promise P4). When two claim at once, they get different
rows, and neither waits. The token, drawn before the claim, is the fence that everything later is checked against
(promise P5).

Claimed rows stay in the index as delete-marked entries until the server purges them, and a locking read walks through
all of them. So a claimer starts after the last row that it took of each priority: the low-water mark. Rows that arrived
below it (late commits, retries, releases) are found by reading from the beginning. That happens whenever a claim comes
back short, and once a second otherwise, but for no more than a twentieth of the time if such reads are expensive. They
are expensive while an old transaction keeps the server from purging, or if the server is far away; meanwhile a claimer
finds what arrives after the marks.

``LowWater.claim`` is the loop; ``lifecycle/claimer`` drives it for a worker, ``streams/stream_claimer`` for a stream.
The rows are locked and taken by ``claim_rows``, whose SQL is ``claims_sql``.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import Mark
from django_dbqueue.states.ranges_in_use import priorities_in_use
from django_dbqueue.statuses import NEW

Found = TypeVar("Found")
"""A row as its claimer reads it."""

RESCAN_SECONDS = 1.0
RESCAN_SHARE = 20
"""Reads from the beginning take at most one twentieth of a claimer's time."""
EXPENSIVE = 0.005
"""Seconds above which a read is put off, even though a claim came back short."""
EXPENSIVE_EACH = 0.000_05
"""Additional seconds allowed for each row that it finds."""
PUT_OFF_MOST = 30.0
"""Maximum seconds for which a read is put off: an expensive one may only have waited for a lock."""
MARKS_KEPT = 8
"""How many priorities' marks outlive an expensive read that found nothing there."""

Marks = dict[int, Mark]
"""By priority."""


class Holder(Protocol[Found]):
    """Who claims: what a claim finds for it, and what goes with the claim into one transaction."""

    def begin(self) -> AbstractContextManager[bool]:
        """Begin the transaction, which ends with the block; False if nothing may be claimed now."""
        ...

    def find(self, priority: int, limit: int, mark: Mark | None) -> tuple[list[Found], Mark | None]:
        """Lock the first due rows after a mark, and perhaps take them; return them, and the mark after the last."""
        ...

    def is_spent(self, found: Found) -> bool:
        """Return whether a row had no reads left before this claim. Only SQL leaves a row so."""
        ...

    def hold(self, claimed: list[Found], spent: list[Found]) -> None:
        """Take what was only locked, do what goes with that, and bury what had no reads left."""
        ...


@dataclass(slots=True)
class LowWater:
    """One claimer's place in one queue. It claims from there, and now and then from the beginning."""

    priorities: list[int] = field(default_factory=list)
    """Those that have rows, highest first, as far as the claimer knows."""
    saw_all: bool = False
    """Whether the last claim read from the beginning, so that a short result means that no more is due."""
    marks: Marks = field(default_factory=dict)
    _again_at: float = 0.0
    _not_before: float = 0.0

    def learn(self, priorities: Collection[int]) -> None:
        """Read at these priorities too, if the read that would find them is put off."""
        if self._not_before and not set(self.priorities).issuperset(priorities):
            self.priorities = sorted({*self.priorities, *priorities}, reverse=True)

    def claim(self, session: Session, queue: str, limit: int, holder: Holder[Found]) -> tuple[list[Found], list[Found]]:
        """Claim up to ``limit`` in one transaction; return what the holder has now, and what it has buried."""
        began = time.monotonic()
        self.saw_all = began >= self._again_at
        if self.saw_all:
            self.priorities = priorities_in_use(session, queue, NEW)
        cost = time.monotonic() - began
        marks = {} if self.saw_all else dict(self.marks)
        found, claimed, spent = list[Found](), list[Found](), list[Found]()
        if self.priorities:
            with holder.begin() as may_claim:
                if not may_claim:
                    return [], []
                reads_since = time.monotonic()  # what precedes them waits for locks, and the commit is no read either
                for priority in self.priorities:
                    rows, mark = holder.find(priority, limit - len(found), marks.get(priority))
                    found += rows
                    if mark is not None:
                        marks[priority] = mark
                    if len(found) == limit:
                        break
                cost += time.monotonic() - reads_since
                spent = [each for each in found if holder.is_spent(each)]
                claimed = [each for each in found if not holder.is_spent(each)] if spent else found
                if found:
                    holder.hold(claimed, spent)
        self._keep(marks, len(found), began, cost, is_full=len(found) == limit)
        return claimed, spent

    def read_all_next(self) -> None:
        """Make the next claim read from the beginning, however expensive that is."""
        self._again_at = 0.0

    def _keep(self, marks: Marks, found: int, began: float, cost: float, *, is_full: bool) -> None:
        """Keep a claim's marks, and decide when to read from the beginning again; it has ``found`` so many rows."""
        if self.saw_all:
            is_expensive = cost > EXPENSIVE + EXPENSIVE_EACH * found
            self._not_before = began + min(RESCAN_SHARE * cost, PUT_OFF_MOST) if is_expensive else 0.0
            self._again_at = max(self._not_before, began + RESCAN_SECONDS)
            if is_expensive and not is_full:
                marks = self._furthest(marks)
                self.priorities = sorted({*self.priorities, *marks}, reverse=True)
        self.marks = marks
        if not is_full:
            self._again_at = self._not_before if self.priorities else 0.0

    def _furthest(self, marks: Marks) -> Marks:
        """Return these marks of a claim that saw all, or the older ones if those are further on, or the only ones."""
        furthest = dict(self.marks)
        for priority, mark in marks.items():
            furthest[priority] = max(mark, furthest.pop(priority, mark))
        return dict(list(furthest.items())[-MARKS_KEPT:])
