"""What a worker asks while it has nothing to do: one statement for everything, which locks nothing.

It reports what there is to do; the code that does it checks again, under its own locks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from itertools import product
from typing import Final, NamedTuple

from django_dbqueue.databases import Statement
from django_dbqueue.databases.statement import chunks
from django_dbqueue.lanes import rates_sql
from django_dbqueue.liveness.late_workers import BEAT_RESTING
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.worker import idle_poll_sql
from django_dbqueue.worker.idle_poll_sql import (
    ADDED,
    AFTER,
    AT_WORK,
    BEFORE,
    EXPIRED,
    GIVEN_UP,
    LATE,
    LATE_SOON,
    NEXT,
    PAUSED,
    RATED,
    READY,
    WORK,
)

_TOGETHER: Final = 100
"""Facts per statement: SQLite combines no more than 500 queries."""
_RATED_AT_MOST: Final = 100_000
_KNOWN: Final = 30
"""Priorities remembered per queue; beyond that the memory is cleared, and each is learnt again as it is met."""


class Fleet(NamedTuple):
    """How many other supervisors rest on the same queues, before and after one's own; whether anybody has messages."""

    before: int
    after: int
    works: bool


class IdlePoll:
    """A worker's queries, on the caller's connection; it remembers which priorities its queues have shown."""

    def __init__(self, session: DjangoSession, queues: tuple[str, ...], operations: str) -> None:
        self._session = session
        self._queues = queues
        self._operations = operations
        self._known: dict[tuple[str, str], list[int]] = {}
        self._seen: dict[str, set[str]] = {}
        self._news: set[str] | None = None
        self.rated: Set[int] = frozenset()
        """Lanes whose groups have rates of their own."""
        self.added = ""
        """'' if operators have added no schedules, else a text that changes with them."""
        self.awaits_work = False
        """Set by the claimer: the last claim left nothing, so the next poll asks for ready messages too."""
        self.asker: int | None = None
        """The worker's id while it asks for all children of its supervisor: then polls ask for the fleet, too."""
        self.fleet = Fleet(0, 0, works=False)
        self.knows_next = False
        """Set by whoever rests for long: then an asker's polls ask when something is due next, too."""

    def poll(self, here: str, *, soon: float) -> None:
        """Ask for everything, including late workers on this server ('': none) and those late in ``soon`` seconds."""
        server = self._session.server
        parts = [
            *self._next(),
            *self._due(EXPIRED),
            idle_poll_sql.paused(server),
            idle_poll_sql.given_up(server),
            idle_poll_sql.added(server),
        ]
        if self.awaits_work:
            parts += self._due(READY)
        parts += [idle_poll_sql.rated(server, queue) for queue in self._queues]
        if self._operations in self._queues:
            parts.append(idle_poll_sql.at_work(server, self._operations))
        if here:
            parts += [
                idle_poll_sql.late(server, LATE, here, 0.0),
                idle_poll_sql.late(server, LATE_SOON, here, soon),
            ]
        if self.asker is not None:
            parts.append(idle_poll_sql.fleet(server, here, ",".join(self._queues), self.asker, BEAT_RESTING))
        self._seen = self._ask(parts)
        self.fleet = Fleet(self._number(BEFORE), self._number(AFTER), works=self._saw(WORK))
        self.added = next(iter(self._seen.get(ADDED, ())), "")
        self._news = self._seen.get(READY, set()) if self.awaits_work else None
        queues = self._seen.get(RATED, ())
        self.rated = {
            lane for queue in queues for (lane,) in self._session.fetch(rates_sql.rated(server, queue, _RATED_AT_MOST))
        }

    def ready(self) -> set[str]:
        """Ask for the queues in which something may be due."""
        return self._ask(self._due(READY)).get(READY, set())

    def priorities(self, queue: str) -> list[int]:
        """Return the priorities at which this queue has shown waiting messages."""
        return self._known.get((READY, queue), [])

    def take_news(self) -> set[str] | None:
        """Return what ``ready`` would, as the last full poll saw it, once; None if it didn't ask or there was none."""
        news, self._news = self._news, None
        return news

    def renew_news(self) -> None:
        """Ask again for what ``take_news`` is to return, if it would return anything: something has been released.

        Dropping it would not do: who asks for all claims by nothing else, and somebody may be late at every poll.
        """
        if self._news is not None:
            self._news = self.ready()

    @property
    def closed(self) -> set[str]:
        """Return the queues to claim nothing from: paused ones, and the bulk operations' queue while there are none."""
        rests = self._operations in self._queues and not self._saw(AT_WORK)
        return self._seen.get(PAUSED, set()) | ({self._operations} if rests else set())

    @property
    def expired(self) -> list[str]:
        """Return the queues in which leases may have expired."""
        return sorted(self._seen.get(EXPIRED, ()))

    @property
    def saw_claims_given_up(self) -> bool:
        """Return whether stream claims are to be released."""
        return self._saw(GIVEN_UP)

    @property
    def saw_late_workers(self) -> bool:
        """Return whether a worker's beat is late."""
        return self._saw(LATE)

    @property
    def expects_late_workers(self) -> bool:
        """Return whether a worker's beat will be late soon, unless it arrives."""
        return self._saw(LATE_SOON)

    @property
    def saw_movement(self) -> bool:
        """Return whether anything is due or somebody has messages, so that more may come soon."""
        is_due = self._seen.get(READY, set()) - self.closed or self._saw(EXPIRED) or self._saw(GIVEN_UP)
        return bool(is_due) or self._saw(LATE) or self.fleet.works

    @property
    def next_due(self) -> float:
        """Return in how many seconds something was due next at the last poll that planned ahead; infinite: nothing."""
        return min((int(each) / 1_000_000 for each in self._seen.get(NEXT, ())), default=math.inf)

    def _saw(self, fact: str) -> bool:
        return fact in self._seen

    def _number(self, fact: str) -> int:
        return int(next(iter(self._seen.get(fact, ())), 0))

    def _due(self, fact: str) -> Iterable[Statement]:
        here = self._session.server
        for queue in self._queues:
            yield from idle_poll_sql.due(here, fact, queue, self._known.get((fact, queue), []))

    def _next(self) -> Iterable[Statement]:
        """Come before all other parts: what falls due between two parts must not be missed.

        The clock moves from statement to statement, and on SQLite from row to row, each of which is a step with a time
        of its own: https://sqlite.org/lang_datefunc.html.
        """
        if self.asker is None or not self.knows_next:
            return
        here = self._session.server
        for fact, queue in product((READY, EXPIRED), self._queues):
            yield from idle_poll_sql.next_due(here, fact, queue, self._known.get((fact, queue), []))
        yield idle_poll_sql.next_open(here)

    def _ask(self, parts: Iterable[Statement]) -> dict[str, set[str]]:
        """Return, by fact, the names for which it holds."""
        seen: dict[str, set[str]] = {}
        for some in chunks(parts, _TOGETHER):
            for fact, name, priority in self._session.fetch(idle_poll_sql.together(some)):
                seen.setdefault(fact, set()).add(name or str(priority))
                if fact in (READY, EXPIRED):
                    self._learn((fact, name), int(priority))
        return seen

    def _learn(self, place: tuple[str, str], priority: int) -> None:
        known = self._known.get(place, [])
        if priority not in known:
            self._known[place] = sorted([*known, priority], reverse=True) if len(known) < _KNOWN else [priority]
