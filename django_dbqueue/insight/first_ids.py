"""Lists for people: the ids of the first messages in a state, over many queues, and of those with a key.

Many ranges of the claim index are read at a time, each no further than the list reaches. Where there are many, the
empty ones are ruled out first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from django_dbqueue.databases.statement import chunks
from django_dbqueue.insight import listing_sql
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states import depths_sql
from django_dbqueue.states.depths import AT_ONCE, ROWS_AT_ONCE
from django_dbqueue.states.ranges_in_use import Range
from django_dbqueue.states.stream_claim_states import overdue_tokens
from django_dbqueue.states.table import STATES, Place, Stage

_KEYS_AT_ONCE: Final = 100


def first_ids(session: DjangoSession, state: str, ranges: Iterable[Range], *, limit: int) -> list[int]:
    """Return up to ``limit`` ids of messages in this state, range by range.

    Within a range the soonest come first; for dead and done ones, the latest.
    """
    places = [Place(each.queue, state, each.priority) for each in ranges if each.may_hold(state)]
    overdue = overdue_tokens(session) if STATES[state].stage is Stage.CLAIMED else []
    found: list[int] = []
    for some in _filled(session, places, most=max(1, ROWS_AT_ONCE // limit), overdue=overdue):
        found += _ids_of(session, some, limit - len(found), overdue)
        if len(found) >= limit:
            return found[:limit]
    return found


def ids_of_keys(session: DjangoSession, hashes: Sequence[str], *, limit: int) -> list[int]:
    """Return up to ``limit`` ids of messages with these key hashes: grouped by key, the latest first."""
    few = min(limit, ROWS_AT_ONCE // _KEYS_AT_ONCE)
    ids = _ids_by_key(session, hashes, few)
    if few < limit:
        ids |= _ids_by_key(session, [each for each, found in ids.items() if len(found) >= few], limit)
    return [message_id for each in hashes for message_id in ids.get(each, ())][:limit]


def _ids_by_key(session: DjangoSession, hashes: Sequence[str], limit: int) -> dict[str, list[int]]:
    ids: dict[str, set[int]] = {}
    for some in chunks(hashes, max(1, min(_KEYS_AT_ONCE, ROWS_AT_ONCE // limit))):
        for number, message_id in session.fetch(listing_sql.latest_of_keys(session.server, some, limit)):
            ids.setdefault(some[number], set()).add(int(message_id))
    return {each: sorted(found, reverse=True)[:limit] for each, found in ids.items()}


def latest_hours(session: DjangoSession, *, limit: int) -> list[tuple[Any, str, int]]:
    """Return hour (as the cursor returns it), queue and id of up to ``limit`` roll-ups, the latest first."""
    return [
        (hour, str(queue), int(row))
        for hour, queue, row in session.fetch(listing_sql.latest_hours(session.server, limit))
    ]


def _ids_of(session: DjangoSession, places: list[Place], limit: int, overdue: list[int]) -> list[int]:
    rows: list[list[tuple[object, int]]] = [[] for _ in places]
    for number, moment, message_id in session.fetch(listing_sql.first_ids(session.server, places, limit, overdue)):
        rows[number].append((moment, int(message_id)))
    ids: list[int] = []
    for place, listed in zip(places, rows, strict=True):
        # the dead have no moment
        listed.sort(key=lambda row: row[1:] if place.state == "dead" else row, reverse=STATES[place.state].latest_first)
        ids += [message_id for _, message_id in listed]
    return ids


def _filled(session: DjangoSession, places: list[Place], *, most: int, overdue: list[int]) -> Iterator[list[Place]]:
    """Split the places into what one statement may read; if there are many, only those that have messages."""
    if len(places) <= most or overdue:
        yield from chunks(places, most)
        return
    server = session.server
    for some in chunks(places, AT_ONCE):
        [counts] = session.fetch(depths_sql.counts(server, some, 1))
        yield from chunks((place for place, count in zip(some, counts, strict=True) if count), most)
