"""What the holder of a message may do with it, and how rows move, whoever moves them, and are recorded.

Every statement of a holder names the row, its state ``run`` and the token of the claim. A former holder changes
nothing, and LeaseLost is raised (promises P5 and P6). The statements run on the caller's connection and join the
caller's transaction.

A move and its record in the life of its messages are one commit: a kill between them leaves neither. Routine moves (an
ack, a release by the holder) record nothing, and are one statement. The others first record what they are about to
move, under the same fence, and so lock it.

A worker settles many at once, its acks in the commit of its next claim: ``worker/settler``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import TypeVar

from django_dbqueue import conf, hooks, signals
from django_dbqueue.databases import Change, Claim, EventRecord, Statement
from django_dbqueue.databases.statement import LanePlace, Tie, chunks
from django_dbqueue.envelope import check_seconds
from django_dbqueue.exceptions import LeaseLost
from django_dbqueue.failures.error_texts import class_path, error_text
from django_dbqueue.failures.failure_group_rows import with_failures
from django_dbqueue.lanes import lane_moves
from django_dbqueue.lifecycle import calls, flow_moves
from django_dbqueue.lifecycle.held_message import HeldMessage
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import events_sql, moves_sql
from django_dbqueue.statements.events_sql import CANCELS, RESENT

Result = TypeVar("Result")
Ties = Mapping[int, Tie] | None
"""By id, the ties of those that are in a lane or a flow; None: not known."""

QUEUES = 100
"""In which one statement looks for what a worker holds."""


def ack_of(session: DjangoSession, queue: str) -> Change:
    """Return what an ack does to a row of this queue: it is kept as ``y``, or removed.

    Only the settings decide, so the answer is the same whoever acks: a handler, a worker, its supervisor, a program
    without consumers.
    """
    server = session.server
    return moves_sql.remove() if conf.on_ack(queue) == conf.DELETE else moves_sql.ack(server)


def nack_of(session: DjangoSession, delay: float | timedelta | None, error: str | BaseException | None) -> Change:
    """Return what a nack does to a row: n, charged, or dead when the reads are spent."""
    seconds = None if delay is None else check_seconds("delay", delay)
    if error is None:
        return moves_sql.nack(session.server, seconds, None)
    return moves_sql.nack(session.server, seconds, error_text(error), class_path(error))


def reject_of(session: DjangoSession, reason: str) -> Change:
    """Return what a reject does to a row: dead."""
    return moves_sql.reject(session.server, error_text(reason) or "Rejected")


def extend_of(session: DjangoSession, seconds: float | timedelta | None) -> Change:
    """Return what an extension does to a row: a new deadline."""
    return moves_sql.extend(session.server, None if seconds is None else check_seconds("seconds", seconds))


def settle_one(
    message: HeldMessage, session: DjangoSession, verb: str, change: Change, *, settled: bool = True
) -> None:
    """Let the holder of a message change it; LeaseLost if it is the holder no longer."""
    work = partial(_settle_one, message, session, verb, change, settled=settled)
    if hooks.active is None or not settled:
        work()
    else:
        hooks.active.settle(verb, message.queue, session.using, [message], work)


def _settle_one(message: HeldMessage, session: DjangoSession, verb: str, change: Change, *, settled: bool) -> None:
    claims, ties = [message.claim], ties_known([message])
    if change.event is None and not ties:  # what most acks are: one statement, and nothing else moves with it
        work = partial(session.run, moves_sql.settle(session.server, change, claims))
    else:
        if change.event is not None and change.event.text:
            change = with_failures(session, change, [message.queue])
        work = partial(settle, session, change, claims, ties)
    if session.outermost(work) != 1:
        message.lease_lost = True
        signals.lease_lost.send(type(message), queue=message.queue, message_id=message.pk, verb=verb)
        raise LeaseLost(message.pk, verb)
    message.forget(change, settled=settled)


def move(session: DjangoSession, change: Change, where: Statement) -> int:
    """Move the rows of a fence and record it; return how many. It joins the caller's transaction."""
    if change.in_lane == "stays":
        return _moved(session, change, where, session.run) or 0
    with session.transaction():
        ties = ties_of(session, where)
        if change.event is not None and change.event.exception == CANCELS:
            calls.call_holders(session, where)
        count = _moved(session, change, where, session.run) or 0
        if ties and count:
            untied(session, change, ties)
    return count


def settle(session: DjangoSession, change: Change, claims: list[Claim], ties: Ties = None) -> int:
    """Move, or remove, what these claims hold, and record it; return how many.

    If fewer than the claims are held, and some of them are in lanes or flows, the caller must undo it: those are as
    before.
    """
    if change.in_lane == "stays" or (ties is not None and not ties):
        return _settled(session, change, claims, session.run) or 0
    with session.transaction():
        tied = _tied(session, claims, ties)
        count = _settled(session, change, claims, session.run) or 0
        if tied and count == len(claims):
            untied(session, change, tied)
    return count


def settle_returning(session: DjangoSession, change: Change, claims: list[Claim], ties: Ties = None) -> set[int]:
    """Do as ``settle`` does where UPDATE returns rows; return the ids that were moved."""
    if change.in_lane == "stays" or (ties is not None and not ties):
        return {row[0] for row in _settled(session, change, claims, session.fetch, returning=True) or ()}
    with session.transaction():
        tied = _tied(session, claims, ties)
        ids = {row[0] for row in _settled(session, change, claims, session.fetch, returning=True) or ()}
        if tied := [tie for tie in tied if tie.id in ids]:
            untied(session, change, tied)
    return ids


def _settled(
    session: DjangoSession,
    change: Change,
    claims: list[Claim],
    send: Callable[[Statement], Result],
    *,
    returning: bool = False,
) -> Result | None:
    if change.event is None:
        return send(moves_sql.settle(session.server, change, claims, returning=returning))
    return _moved(session, change, moves_sql.held(session.server, claims), send, returning=returning)


def _moved(
    session: DjangoSession,
    change: Change,
    where: Statement,
    send: Callable[[Statement], Result],
    *,
    returning: bool = False,
) -> Result | None:
    """Move the rows of a fence, having recorded what is about to happen to them; return None if there are none."""
    statement = moves_sql.move(session.server, change, where, returning=returning)
    if change.event is None:
        return send(statement)
    with session.transaction():
        return send(statement) if session.run(events_sql.record(session.server, change.event, where)) else None


def ties_known(messages: Iterable[HeldMessage]) -> dict[int, Tie]:
    """Return the ties of those that are in a lane or a flow, by id."""
    tied = (one for one in messages if one.lane is not None or one.flow is not None)
    return {one.pk: Tie(one.pk, one.queue, one.lane, one.flow) for one in tied}


def ties_of(session: DjangoSession, where: Statement) -> list[Tie]:
    """Lock the rows of a fence that are in a lane or a flow, and return their ties."""
    return [Tie(*row) for row in session.fetch(moves_sql.ties(session.server, where))]


def _tied(session: DjangoSession, claims: list[Claim], ties: Ties) -> list[Tie]:
    """Return the ties of those that have some; they are read if the caller doesn't know."""
    if ties is None:
        return ties_of(session, moves_sql.held(session.server, claims))
    return [ties[claim.id] for claim in claims if claim.id in ties]


def untied(session: DjangoSession, change: Change, ties: Iterable[Tie]) -> None:
    """Let those continue that a change sets free in lanes and flows, in the same transaction."""
    ties = list(ties)
    if places := [LanePlace(tie.lane, tie.id, tie.queue) for tie in ties if tie.lane is not None]:
        lane_moves.moved(session, change, places)
    if members := [tie.id for tie in ties if tie.flow is not None]:
        flow_moves.moved(session, change, members)


def resent(session: DjangoSession, message: HeldMessage, new_id: int, *, actor: str | None) -> None:
    """Record that a message was sent again, as a new one, in the transaction that sends it."""
    same = Statement("id = %s", (message.pk,))
    session.run(events_sql.record(session.server, EventRecord(RESENT, f"#{new_id}", actor), same))


def held_by(session: DjangoSession, queues: Iterable[str], worker_id: int) -> list[Claim]:
    """Read what a worker holds of these queues."""
    owned = (moves_sql.owned(session.server, some, worker_id) for some in chunks(queues, QUEUES))
    return [Claim(*row) for statement in owned for row in session.fetch(statement)]
