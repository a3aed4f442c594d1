"""All messages that match, as of a moment: found a page at a time, and counted.

Messages that arrived, or reached that state, later don't match. Each page starts where the previous one ended, so a
message that can't be moved is met only once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Final, NamedTuple, Self

from django_dbqueue import conf
from django_dbqueue.databases.moments import as_text
from django_dbqueue.databases.statement import MAX_IDS, Row, Statement, chunks
from django_dbqueue.failures import failures_sql
from django_dbqueue.operations import bulk_sql
from django_dbqueue.operations.verbs import Verb
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import Capped
from django_dbqueue.states.depths import ROWS_AT_ONCE, depths
from django_dbqueue.states.ranges_in_use import HIGHEST, next_priority, next_queue, queues_in_use
from django_dbqueue.states.table import STATES, Place

STEP: Final = 500
"""Messages per transaction."""
RANGES_PER_STEP: Final = 100
"""Index ranges that one step checks; with many queues, most of them may be empty."""
COUNTED: Final = 10_000
"""Where counting of matching messages stops."""
_LITTLE: Final = 100
"""Where the first count of each queue stops."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages, as of when: those of one queue (None: all) in a state, or the dead ones of a failure group."""

    state: str
    queue: str | None = None
    failure: int | None = None
    last_id: int = 0
    """The highest message id at that moment; ``last_event`` is the highest event id. Later ones don't match."""
    last_event: int = 0
    at: str = ""
    """The moment by the database's clock, in the form its columns accept."""

    @classmethod
    def now(cls, session: DjangoSession, *, state: str, queue: str | None = None, failure: int | None = None) -> Self:
        """Return the selection of what exists now."""
        server = session.server
        [(moment,)] = session.fetch(server.clock())
        [(last_id, last_event)] = session.fetch(bulk_sql.last_ids(server))
        return cls(state, queue, failure, last_id or 0, last_event or 0, as_text(moment))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the selection that ``str()`` wrote."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return json.dumps(asdict(self))


class Found(NamedTuple):
    """A page of matches, and where the next one begins; None after the last."""

    ids: list[int]
    cursor: str | None


class _Mark(NamedTuple):
    """How far a walk has come: the last row it met or, without one, the range it has finished."""

    queue: str
    priority: int
    moment: str | None = None
    id: int | None = None


def find(session: DjangoSession, selection: Selection, cursor: str, size: int = STEP) -> Found:
    """Return up to ``size`` of the next ids that match; a page may be empty without being the last."""
    found = (_find_in_state if selection.failure is None else _find_of_failure)(session, selection, cursor, size)
    return found._replace(ids=[number for number in found.ids if number <= selection.last_id])


def count(session: DjangoSession, selection: Selection, cap: int = COUNTED) -> Capped:
    """Count what matches, up to a cap: exactly, page by page; across all queues, by their depths."""
    if selection.failure is None and selection.queue is None:
        names = [name for name in queues_in_use(session) if name != conf.get("OPERATIONS_QUEUE")]
        return _count_of_queues(session, names, selection.state, cap)
    total = 0
    for page, is_last in islice(pages(session, selection), 2 * (cap // STEP + 1)):
        total += sum(number <= selection.last_id for number in page)
        if is_last or total > cap:
            return Capped(total, cap)
    counted = Capped(total, cap)
    counted.more = True
    return counted


def _count_of_queues(session: DjangoSession, names: list[str], state: str, cap: int) -> Capped:
    """Count a little of each queue, then, until the cap is reached, count on in those that have more."""
    little = max(_LITTLE, cap // max(1, len(names)))
    found = {name: depth.counts[state] for name, depth in depths(session, names, states=[state], cap=little).items()}
    total, more = int(sum(found.values())), False
    for name in [name for name, few in found.items() if few.more]:
        if total > cap:
            break
        deep = depths(session, [name], states=[state], cap=min(cap, ROWS_AT_ONCE - 1))[name].counts[state]
        total, more = total + deep - found[name], more or deep.more
    counted = Capped(total, cap)
    counted.more |= more
    return counted


def pages(session: DjangoSession, selection: Selection) -> Iterator[tuple[list[int], bool]]:
    """Walk through what matches, without a lock: yield ids, and whether they are the last."""
    if selection.failure is not None:
        yield from _newest_of_failure(session, selection.failure, selection.last_event + 1)
        return
    cursor: str | None = ""
    while cursor is not None:
        ids, cursor = find(session, selection, cursor)
        yield ids, cursor is None


def _newest_of_failure(session: DjangoSession, failure: int, before: int) -> Iterator[tuple[list[int], bool]]:
    """Yield the newest failures first: the oldest may all be of messages that have failed again since."""
    server = session.server
    while rows := session.fetch(failures_sql.newest_events_of(server, failure, before, STEP)):
        events = [row[0] for row in rows]
        before = events[-1]
        yield [row[1] for row in session.fetch(failures_sql.dead_of_events(server, events))], False
    yield [], True


def count_movable(session: DjangoSession, verb: Verb, ids: Iterable[int]) -> int:
    """Return to how many of these messages the verb could be applied now."""
    server, count = session.server, 0
    for chunk in chunks(sorted(set(ids)), MAX_IDS):
        named = server.id_in(chunk)
        where = Statement(f"{named.sql} AND {verb.fence(server)}", named.params)
        [(some,)] = session.fetch(bulk_sql.count_these(server, where))
        count += int(some)
    return count


def find_any(session: DjangoSession, selection: Selection) -> bool:
    """Return whether anything still matches, as far as finding a page without locking it can show."""
    server = session.server
    cursor: str | None = ""
    for _page in range(2 * (COUNTED // STEP + 1)):
        found = find(session, selection, cursor or "")
        if found.ids and session.fetch(
            bulk_sql.count_these(server, bulk_sql.still(server, found.ids, selection.state, selection.at))
        ) != [(0,)]:
            return True
        cursor = found.cursor
        if cursor is None:
            return False
    return True


def _find_of_failure(session: DjangoSession, selection: Selection, cursor: str, size: int) -> Found:
    server = session.server
    assert selection.failure is not None
    after = int(cursor or 0)
    rows = session.fetch(failures_sql.events_of(server, selection.failure, after, selection.last_event, size))
    events = [row[0] for row in rows]
    ids = [row[1] for row in session.fetch(failures_sql.dead_of_events(server, events))] if events else []
    return Found(ids, str(events[-1]) if len(events) == size else None)


def _find_in_state(session: DjangoSession, selection: Selection, cursor: str, size: int) -> Found:
    mark = _Mark(*json.loads(cursor)) if cursor else _Mark(selection.queue or "", HIGHEST)
    for _range in range(RANGES_PER_STEP):
        place: Place | None = Place(mark.queue, selection.state, mark.priority)
        if mark.id is None:
            place = _next_place(session, selection, mark)
        if place is None:
            return Found([], None)
        rows = _rows(session, place, selection.at, mark, size)
        if rows:
            moment, last = rows[-1]
            mark = _Mark(place.queue, place.priority, "" if moment is None else as_text(moment), last)
            return Found([row[1] for row in rows], json.dumps(mark))
        mark = _Mark(place.queue, place.priority)
    return Found([], json.dumps(mark))


def _next_place(session: DjangoSession, selection: Selection, mark: _Mark) -> Place | None:
    """Return the range after a mark: the next lower priority of its queue, or the highest of the next queue."""
    server, status = session.server, STATES[selection.state].stage.status
    if rows := session.fetch(next_priority(server, mark.queue, status, mark.priority)):
        return Place(mark.queue, selection.state, int(rows[0][0]))
    if selection.queue is not None:
        return None
    queue, own = mark.queue, conf.get("OPERATIONS_QUEUE")
    while rows := session.fetch(next_queue(server, queue)):
        queue = str(rows[0][0])
        first = session.fetch(next_priority(server, queue, status, HIGHEST))
        if first and queue != own:  # operations don't operate on themselves
            return Place(queue, selection.state, int(first[0][0]))
    return None


def _rows(session: DjangoSession, place: Place, at: str, mark: _Mark, size: int) -> list[Row]:
    server = session.server
    behind = None if mark.id is None else (mark.moment or "", mark.id)
    rows = session.fetch(bulk_sql.page(server, place, at, behind, size))
    if behind is not None and len(rows) < size and place.state != "dead":
        rows += session.fetch(bulk_sql.page_later(server, place, at, behind[0], size - len(rows)))
    return rows
