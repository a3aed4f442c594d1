"""Queue depths by state, at a cost that does not grow with other messages.

Each state of a queue is one range of the index ``dbqueue_claim`` per priority in use. Counts stop at a cap, and many
ranges are counted at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import chunks
from django_dbqueue.states import depths_sql
from django_dbqueue.states.counts import Capped
from django_dbqueue.states.ranges_in_use import Range, ranges_in_use
from django_dbqueue.states.stream_claim_states import overdue_tokens
from django_dbqueue.states.table import STATES, Place, Stage

UNFINISHED: Final = tuple(name for name, state in STATES.items() if state.stage is not Stage.FINISHED)
CAP: Final = 10_000
AT_ONCE: Final = 50
"""Ranges that one statement counts."""
ROWS_AT_ONCE: Final = 9_000
"""Rows that one statement counts, if it counts more than one range: a server handles each twice."""


@dataclass(frozen=True, slots=True)
class Depth:
    """How many messages of a queue are in each state, and since when the oldest ready one has been due."""

    queue: str
    counts: dict[str, Capped]
    oldest_ready: object
    """A moment as the cursor returned it; None if nothing is ready or it wasn't asked for."""


def depths(
    session: Session,
    queues: Iterable[str],
    *,
    states: Iterable[str] = UNFINISHED,
    cap: int = CAP,
    ranges: Iterable[Range] | None = None,
) -> dict[str, Depth]:
    """Return how deep each of these queues is, in each of these states, up to the cap.

    What streams hold under an expired lease counts as stuck. ``ranges`` are those in use, if the caller has read them.
    """
    names, wanted = list(queues), list(states)
    found = {name: dict.fromkeys(wanted, 0) for name in names}
    used = [each for each in (ranges_in_use(session, names) if ranges is None else ranges) if each.queue in found]
    places = [Place(each.queue, state, each.priority) for each in used for state in wanted if each.may_hold(state)]
    for place, count in _counted(session, places, cap + 1):
        found[place.queue][place.state] += count
    oldest = _oldest(session, [place for place in places if place.state == "ready"])
    return {
        name: Depth(name, {state: Capped(count, cap) for state, count in counts.items()}, oldest.get(name))
        for name, counts in found.items()
    }


def _counted(session: Session, places: Sequence[Place], limit: int) -> Iterator[tuple[Place, int]]:
    """Count many ranges up to a small limit at once, then those that have more, a few at a time."""
    first = min(limit, ROWS_AT_ONCE // AT_ONCE)
    deep = []
    overdue = overdue_tokens(session) if any(place.state in Stage.CLAIMED.states for place in places) else []
    for place, count in _counted_at_once(session, places, first, overdue):
        if count < first or first == limit:
            yield place, count
        else:
            deep.append(place)
    yield from _counted_at_once(session, deep, limit, overdue)


def _counted_at_once(
    session: Session, places: Sequence[Place], limit: int, overdue: Sequence[int]
) -> Iterator[tuple[Place, int]]:
    # each place names all tokens that are overdue, and SQLite takes 32,766 parameters by its own default
    most = min(AT_ONCE, ROWS_AT_ONCE // max(limit, len(overdue)))
    for chunk in chunks(places, max(1, most)):
        [counts] = session.fetch(depths_sql.counts(session.server, chunk, limit, overdue))
        yield from zip(chunk, counts, strict=True)


def _oldest(session: Session, places: Iterable[Place]) -> dict[str, object]:
    found: dict[str, object] = {}
    for chunk in chunks(places, AT_ONCE):
        [moments] = session.fetch(depths_sql.oldest(session.server, chunk))
        for place, moment in zip(chunk, moments, strict=True):
            if moment is not None:
                found[place.queue] = min(moment, found.get(place.queue, moment))
    return found
