"""A move and its record in the life of its messages are one commit: a kill between them leaves neither.

Routine moves (an ack, a release by the holder) record nothing, and are one statement. The others first record what they
are about to move, under the same fence, and so lock it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from django_dbqueue.databases import Change, Claim, Event, Statement
from django_dbqueue.databases.events_sql import FAILURES, RESENT
from django_dbqueue.lifecycle.django_session import DjangoSession
from django_dbqueue.lifecycle.failure_group_rows import failure_ids
from django_dbqueue.lifecycle.held_message import HeldMessage

Result = TypeVar("Result")

BATCH = 500


def move(session: DjangoSession, change: Change, where: Statement) -> int:
    """Move the rows of a fence and record it; return how many. It joins the caller's transaction."""
    statement = session.dialect.messages.move(change, where)
    if change.event is None:
        return session.run(statement)
    return _recorded(session, change.event, where, partial(session.run, statement)) or 0


def settle(session: DjangoSession, change: Change, claims: list[Claim]) -> int:
    """Move, or remove, what these claims hold, and record it; return how many."""
    messages = session.dialect.messages
    statement = messages.settle(change, claims)
    if change.event is None:
        return session.run(statement)
    return _recorded(session, change.event, messages.held(claims), partial(session.run, statement)) or 0


def settle_and_tell(session: DjangoSession, change: Change, claims: list[Claim]) -> set[int]:
    """Do as ``settle`` does where UPDATE returns rows; return the ids that were moved."""
    messages = session.dialect.messages
    statement = messages.settle(change, claims, returning=True)
    if change.event is None:
        rows = session.fetch(statement)
    else:
        rows = _recorded(session, change.event, messages.held(claims), partial(session.fetch, statement)) or []
    return {row[0] for row in rows}


def _recorded(session: DjangoSession, event: Event, where: Statement, go_on: Callable[[], Result]) -> Result | None:
    """Record what is about to be moved, and move it; return None if there is nothing."""
    with session.transaction():
        return go_on() if session.run(session.dialect.events.record(event, where)) else None


def resent(session: DjangoSession, message: HeldMessage, new_id: int, *, actor: str | None) -> None:
    """Record that a message was sent again, as a new one, in the transaction that sends it."""
    same = Statement("id = %s", (message.pk,))
    session.run(session.dialect.events.record(Event(RESENT, f"#{new_id}", actor), same))


def blamed(session: DjangoSession, change: Change, queues: Iterable[str]) -> Change:
    """Return a change that knows which kind of failure it is in each queue of its messages.

    What a person does is not a failure, and what gives no error has no kind.
    """
    event = change.event
    if event is None or event.kind not in FAILURES or event.actor or not event.text:
        return change
    names = sorted(set(queues))
    ids = failure_ids(session, [(name, event.text) for name in names])
    known = tuple((name, number) for name, number in zip(names, ids, strict=True) if number is not None)
    return change._replace(event=event._replace(failures=known))


def forget_events(session: DjangoSession, *, age: float, limit: int) -> int:
    """Delete up to ``limit`` records older than ``age`` seconds; return how many."""
    forgotten = 0
    if not session.fetch(session.dialect.events.old(age, 1, lock=False)):
        return 0  # the usual case, and no transaction was opened
    while forgotten < limit:
        some = session.outermost(partial(_forget_some, session, age, min(BATCH, limit - forgotten)))
        forgotten += some
        if some < BATCH:
            break
    return forgotten


def _forget_some(session: DjangoSession, age: float, limit: int) -> int:
    dialect = session.dialect
    with session.transaction():
        ids = [row[0] for row in session.fetch(dialect.events.old(age, limit))]
        return session.run(dialect.events.delete(ids)) if ids else 0
