"""A move and its record in the life of its messages are one commit: a kill between them leaves neither.

Routine moves (an ack, a release by the holder) record nothing, and are one statement. The others first record what they
are about to move, under the same fence, and so lock it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from django_dbqueue.databases import Change, Claim, EventRecord, Statement
from django_dbqueue.databases.statement import LanePlace, Tie, chunks
from django_dbqueue.lanes import lane_moves
from django_dbqueue.lifecycle import flow_moves
from django_dbqueue.lifecycle.held_message import HeldMessage
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import events_sql, fences_sql
from django_dbqueue.statements.events_sql import RESENT

Result = TypeVar("Result")
Ties = Mapping[int, Tie] | None
"""By id, the ties of those that are in a lane or a flow; None: not known."""

BATCH = 500
QUEUES = 100
"""In which one statement looks for what a worker holds."""


def move(session: DjangoSession, change: Change, where: Statement) -> int:
    """Move the rows of a fence and record it; return how many. It joins the caller's transaction."""
    statement = fences_sql.move(session.server, change, where)
    if change.in_lane == "stays":
        return _moved(session, change, where, statement)
    with session.transaction():
        ties = ties_of(session, where)
        count = _moved(session, change, where, statement)
        if ties and count:
            untied(session, change, ties)
    return count


def _moved(session: DjangoSession, change: Change, where: Statement, statement: Statement) -> int:
    if change.event is None:
        return session.run(statement)
    return _recorded(session, change.event, where, partial(session.run, statement)) or 0


def settle(session: DjangoSession, change: Change, claims: list[Claim], ties: Ties = None) -> int:
    """Move, or remove, what these claims hold, and record it; return how many.

    If fewer than the claims are held, and some of them are in lanes or flows, the caller must undo it: those are as
    before.
    """
    statement = fences_sql.settle(session.server, change, claims)
    if change.in_lane == "stays" or (ties is not None and not ties):
        if change.event is None:
            return session.run(statement)
        return _moved(session, change, fences_sql.held(session.server, claims), statement)
    with session.transaction():
        tied = _tied(session, claims, ties)
        count = _moved(session, change, fences_sql.held(session.server, claims), statement)
        if tied and count == len(claims):
            untied(session, change, tied)
    return count


def settle_and_tell(session: DjangoSession, change: Change, claims: list[Claim], ties: Ties = None) -> set[int]:
    """Do as ``settle`` does where UPDATE returns rows; return the ids that were moved."""
    statement = fences_sql.settle(session.server, change, claims, returning=True)
    if change.in_lane == "stays" or (ties is not None and not ties):
        return _moved_and_told(session, change, fences_sql.held(session.server, claims), statement)
    with session.transaction():
        tied = _tied(session, claims, ties)
        told = _moved_and_told(session, change, fences_sql.held(session.server, claims), statement)
        if tied := [tie for tie in tied if tie.id in told]:
            untied(session, change, tied)
    return told


def _moved_and_told(session: DjangoSession, change: Change, where: Statement, statement: Statement) -> set[int]:
    if change.event is None:
        rows = session.fetch(statement)
    else:
        rows = _recorded(session, change.event, where, partial(session.fetch, statement)) or []
    return {row[0] for row in rows}


def ties_of(session: DjangoSession, where: Statement) -> list[Tie]:
    """Lock the rows of a fence that are in a lane or a flow, and return their ties."""
    return [Tie(*row) for row in session.fetch(fences_sql.ties(session.server, where))]


def untied(session: DjangoSession, change: Change, ties: Iterable[Tie]) -> None:
    """Let those go on that a change sets free in lanes and flows, in the same transaction."""
    ties = list(ties)
    if places := [LanePlace(tie.lane, tie.id, tie.queue) for tie in ties if tie.lane is not None]:
        lane_moves.moved(session, change, places)
    if members := [tie.id for tie in ties if tie.flow is not None]:
        flow_moves.moved(session, change, members)


def _tied(session: DjangoSession, claims: list[Claim], ties: Ties) -> list[Tie]:
    """Return the ties of those that have some; they are read if the caller doesn't know."""
    if ties is None:
        return ties_of(session, fences_sql.held(session.server, claims))
    return [ties[claim.id] for claim in claims if claim.id in ties]


def _recorded(
    session: DjangoSession, event: EventRecord, where: Statement, go_on: Callable[[], Result]
) -> Result | None:
    """Record what is about to be moved, and move it; return None if there is nothing."""
    with session.transaction():
        return go_on() if session.run(events_sql.record(session.server, event, where)) else None


def resent(session: DjangoSession, message: HeldMessage, new_id: int, *, actor: str | None) -> None:
    """Record that a message was sent again, as a new one, in the transaction that sends it."""
    same = Statement("id = %s", (message.pk,))
    session.run(events_sql.record(session.server, EventRecord(RESENT, f"#{new_id}", actor), same))


def forget_events(session: DjangoSession, *, age: float, limit: int) -> int:
    """Delete up to ``limit`` records older than ``age`` seconds; return how many."""
    forgotten = 0
    if not session.fetch(events_sql.old(session.server, age, 1, lock=False)):
        return 0  # the usual case, and no transaction was opened
    while forgotten < limit:
        some = session.outermost(partial(_forget_some, session, age, min(BATCH, limit - forgotten)))
        forgotten += some
        if some < BATCH:
            break
    return forgotten


def _forget_some(session: DjangoSession, age: float, limit: int) -> int:
    server = session.server
    with session.transaction():
        ids = [row[0] for row in session.fetch(events_sql.old(server, age, limit))]
        return session.run(events_sql.delete(server, ids)) if ids else 0


def held_by(session: DjangoSession, queues: Iterable[str], worker_id: int) -> list[Claim]:
    """Read what a worker holds of these queues."""
    owned = (fences_sql.owned(session.server, some, worker_id) for some in chunks(queues, QUEUES))
    return [Claim(*row) for statement in owned for row in session.fetch(statement)]
