"""Where a claimer starts to read a queue: after the rows that it took last, and from the beginning now and then.

Claimed rows stay in the index as delete-marked entries until the server purges them, and a locking read walks through
all of them. So a claimer starts after the last row that it took of each priority: the low-water mark. Rows that arrived
below it (late commits, retries, releases) are found by reading from the beginning. That happens whenever a claim comes
back short, and once a second otherwise, but for no more than a twentieth of the time if such reads are expensive. They
are expensive while an old transaction keeps the server from purging, or if the server is far away; meanwhile a claimer
finds what arrives after the marks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from django_dbqueue.databases.statement import Mark

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


@dataclass(slots=True)
class LowWater:
    """One claimer's marks in one queue, and when it reads from the beginning again."""

    priorities: list[int] = field(default_factory=list)
    """Those that have rows, highest first, as far as the claimer knows."""
    saw_all: bool = False
    """Whether the last claim read from the beginning, so that a short result means that no more is due."""
    marks: Marks = field(default_factory=dict)
    _began: float = 0.0
    _cost: float = 0.0
    _reading_since: float = 0.0
    _again_at: float = 0.0
    _not_before: float = 0.0

    def learn(self, priorities: Collection[int]) -> None:
        """Read at these priorities too, if the read that would find them is put off."""
        if self._not_before and not set(self.priorities).issuperset(priorities):
            self.priorities = sorted({*self.priorities, *priorities}, reverse=True)

    def begin(self, priorities: Callable[[], list[int]]) -> Marks:
        """Begin a claim; return the marks to read after, which the caller advances. ``priorities`` reads them."""
        self._began, self._cost = time.monotonic(), 0.0
        self.saw_all = self._began >= self._again_at
        if not self.saw_all:
            return dict(self.marks)
        self.start_reading()
        self.priorities = priorities()
        self.stop_reading()
        return {}

    def start_reading(self) -> None:
        """Count the time from here on as the read's: not what precedes it and waits for locks."""
        self._reading_since = time.monotonic()

    def stop_reading(self) -> None:
        """Stop counting: the commit is not the read's either."""
        self._cost += time.monotonic() - self._reading_since

    def read_all_next(self) -> None:
        """Make the next claim read from the beginning, however expensive that is."""
        self._again_at = 0.0

    def end(self, marks: Marks, taken: int, *, is_full: bool) -> None:
        """Keep the marks of a claim that took ``taken`` rows, and when to read from the beginning again."""
        if self.saw_all:
            is_expensive = self._cost > EXPENSIVE + EXPENSIVE_EACH * taken
            self._not_before = self._began + min(RESCAN_SHARE * self._cost, PUT_OFF_MOST) if is_expensive else 0.0
            self._again_at = max(self._not_before, self._began + RESCAN_SECONDS)
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
