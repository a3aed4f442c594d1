"""What workers remember who delete the history by age, as the one row of its table has it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import heappush, heapreplace
from typing import Final

from django_dbqueue.databases.session import Session
from django_dbqueue.history import age_sql
from django_dbqueue.history.lived_time import SECOND, LivedTime, most_of_a_gap

PLACES: Final = 50
"""How many scopes' places are remembered besides those of the settings now: of workers with other settings, and of
earlier ones."""
HALVED: Final = 1_000
"""How often stretches of a history are halved, to find the greatest step: enough for more than a year. What is then the
longest one is taken for a gap, so that nothing goes too early."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The queues that have one retention: those that are named, or all others."""

    seconds: float
    names: frozenset[str]
    is_rest: bool

    def has(self, queue: str) -> bool:
        """Return whether rows of this queue are deleted at this age."""
        return (queue in self.names) != self.is_rest

    @property
    def key(self) -> str:
        """Which queues these are. A place is remembered for the queues: rows of one that joins come before it."""
        return sha256(json.dumps([self.is_rest, sorted(self.names)]).encode()).hexdigest()[:16]


def scopes(default: float | None, named: Mapping[str, float | None]) -> list[Scope]:
    """Return the scopes of all queues whose rows are deleted; ``named``: the retention of those that differ."""
    each = {seconds for seconds in named.values() if seconds is not None}
    found = [Scope(one, frozenset(name for name in named if named[name] == one), is_rest=False) for one in sorted(each)]
    return found if default is None else [*found, Scope(default, frozenset(named), is_rest=True)]


def longest(default: float | None, named: Mapping[str, float | None]) -> float | None:
    """Return the age at which every row is deleted, whatever its queue; None if some are kept for ever."""
    every = [default, *named.values()]
    return max((one for one in every if one is not None), default=None) if None not in every else None


def read_from_rows(session: Session, lived: LivedTime | None, now: int, age: float) -> LivedTime:
    """Return what is known after a time in which nobody has checked the clock: somebody read it for each row of then.

    ``lived``: what was known before, None if nobody has ever checked it.

    The greatest step from one row to the next, of those that ended less than ``age`` seconds ago, is a gap, if it is
    longer than what counts of one. The longest stretch is halved until it is a step: no other has a greater one then.
    """
    server, since, gaps = session.server, lived.seen if lived else 0, lived.gaps if lived else ()
    first = session.fetch(age_sql.first_between(server, 0, age_sql.EVERY_ID))
    last = session.fetch(age_sql.last_between(server, 0, age_sql.EVERY_ID))
    if not first or not last:
        return lived or LivedTime(now)
    [(low, begin)], [(high, end)] = first, last
    begin, end = max(int(begin), since), max(int(end), since)
    seen = min(now, end)
    horizon = seen - int(age * SECOND)
    stretches = [(begin - end, low, begin, high, end)]
    for _half in range(HALVED):
        _length, low, begin, high, end = stretches[0]
        if end - begin <= most_of_a_gap(age):
            return LivedTime(seen, gaps)
        middle = (low + high) // 2
        between = session.fetch(age_sql.first_between(server, max(middle, low + 1), high))
        between = between or session.fetch(age_sql.last_between(server, low + 1, middle))
        if not between:
            break
        [(found, moment)] = between
        moment = max(int(moment), since)
        heapreplace(stretches, (moment - end, found, moment, high, end))
        if moment > horizon:
            heappush(stretches, (begin - moment, low, begin, found, moment))
    _length, _low, begin, _high, end = stretches[0]
    return LivedTime(seen, (*gaps, (begin, end)))


@dataclass(frozen=True, slots=True)
class WalkPlace:
    """How far a scope's rows were passed, and when those that had to be left behind are to be tried again."""

    id: int = 0
    again_at: int | None = None


@dataclass(slots=True)
class AgeState:
    """The row."""

    lived: LivedTime
    places: dict[str, WalkPlace] = field(default_factory=dict)
    gone_to: int = 0
    """The highest id that was deleted by age."""
    purged_to: int | None = None
    """Up to which id whole partitions have expired; they are dropped, or will be."""

    @classmethod
    def read(cls, session: Session) -> AgeState | None:
        """Return it as it is; None if nobody has checked the clock yet."""
        rows = session.fetch(age_sql.state(session.server))
        if not rows:
            return None
        [(seen, gaps, places, gone_to, purged_to)] = rows
        lived = LivedTime(int(seen), tuple((int(begin), int(end)) for begin, end in json.loads(gaps)))
        return cls(
            lived, {key: WalkPlace(*place) for key, place in json.loads(places).items()}, int(gone_to), purged_to
        )

    def insert(self, session: Session) -> None:
        """Write it for the first time."""
        session.run(age_sql.insert_state(session.server, *self._columns()))

    def update(self, session: Session) -> None:
        """Write it again."""
        session.run(age_sql.update_state(session.server, *self._columns()))

    def move(self, scope: Scope, place: WalkPlace, gone: Iterable[int] = ()) -> None:
        """Note how far a scope came, and what went."""
        self.places.pop(scope.key, None)  # so that it comes last
        self.places[scope.key] = place
        self.gone_to = max(self.gone_to, *gone, 0)

    def forget_places(self, wanted: Iterable[Scope]) -> None:
        """Forget the oldest places of scopes that are not wanted. A place of one that is would never come on again."""
        keys = {scope.key for scope in wanted}
        for key in [key for key in self.places if key not in keys][:-PLACES]:
            del self.places[key]

    def _columns(self) -> tuple[int, str, str, int, int | None]:
        places = {key: [place.id, place.again_at] for key, place in self.places.items()}
        return self.lived.seen, json.dumps(self.lived.gaps), json.dumps(places), self.gone_to, self.purged_to
