"""Operator actions on all matching messages: found a page at a time, each page moved in one transaction.

A step locks what the page found, skips rows that others have locked, checks again that each row is still where it was
when the operator looked, and moves it. Messages that arrived, or reached that state, later are not touched. Each page
starts where the previous one ended, so a message that can't be moved is met only once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final, NamedTuple, Self

from django.db import DatabaseError

from django_dbqueue import conf
from django_dbqueue.databases import Statement
from django_dbqueue.databases.moments import as_text
from django_dbqueue.databases.statement import Row, holes
from django_dbqueue.failures import failures_sql
from django_dbqueue.lifecycle.moves import move
from django_dbqueue.operations import bulk_sql
from django_dbqueue.operations.change_queue import change_queue
from django_dbqueue.operations.conflicts import is_taken
from django_dbqueue.operations.verbs import VERBS, Verb
from django_dbqueue.sessions.apart import apart, name_refused
from django_dbqueue.sessions.django_session import DjangoSession, MessageType
from django_dbqueue.statements import fences_sql
from django_dbqueue.states.counts import Capped
from django_dbqueue.states.depths import ROWS_AT_ONCE, depths
from django_dbqueue.states.ranges_in_use import HIGHEST, next_priority, next_queue, queues_in_use
from django_dbqueue.states.table import STATES, Place

STEP: Final = 500
"""Messages per transaction."""
STEP_OF_PAYLOADS: Final = 50
"""The same, where each takes statements of its own."""
LOOKS: Final = 100
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


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one page: how many were moved and left alone, and where the next begins; None after the last."""

    moved: int
    left_alone: int
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
    for page, is_last in islice(_pages(session, selection), 2 * (cap // STEP + 1)):
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


def _pages(session: DjangoSession, selection: Selection) -> Iterator[tuple[list[int], bool]]:
    """Walk through what matches, to count it: yield ids, and whether they are the last."""
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


def step(
    model: MessageType,
    session: DjangoSession,
    verb: str,
    selection: Selection,
    cursor: str,
    *,
    reason: str,
    actor: str,
    queue: str = "",
    size: int | None = None,
) -> Step:
    """Move the next page of what matches, into ``queue`` if the verb asks for one.

    Call it in a transaction; the cursor belongs to the same commit.
    """
    found = find(session, selection, cursor, size or (STEP_OF_PAYLOADS if VERBS[verb].move is None else STEP))
    if not found.ids:
        return Step(0, 0, found.cursor)
    server = session.server
    fence = bulk_sql.still(server, found.ids, selection.state, selection.at)
    ids = [row[0] for row in session.fetch(fences_sql.lock(server, fence, skip_locked=True))]
    moved = _move(model, session, VERBS[verb], ids, reason, actor, queue) if ids else 0
    return Step(moved, len(found.ids) - moved, found.cursor)


def _move(model: Any, session: DjangoSession, verb: Verb, ids: list[int], reason: str, actor: str, queue: str) -> int:
    """Move locked rows: together if nothing is in the way, otherwise in halves; what is refused alone is left alone."""
    if verb.asks_queue:
        rows = model.objects.using(session.using).filter(pk__in=ids).defer("body", "headers_text", "error")
        return int(change_queue(session, rows.order_by("pk"), queue, actor=actor))
    if verb.move is None:
        return int(model.objects.using(session.using).filter(pk__in=ids).send_again(by=actor))
    server = session.server
    change = verb.change(server, verb.said_by(actor, reason), actor)

    moved = 0

    def move_them(some: list[int]) -> None:
        nonlocal moved
        named = tuple(some)
        with session.transaction():
            count = move(session, change, Statement(f"id IN ({holes(len(named))}) AND {verb.fence(server)}", named))
        moved += count

    apart(ids, move_them, _left_alone)
    return moved


def _left_alone(message_id: int, error: DatabaseError) -> None:
    """Name what was refused, unless a newer live message holds its key."""
    if not is_taken(error):
        name_refused(message_id, error)


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
    for _look in range(LOOKS):
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
