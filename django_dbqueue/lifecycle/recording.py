"""A move and its record in the life of its messages are one commit: a kill between them leaves neither.

Routine moves (an ack, a release by the holder) record nothing, and are one statement. The others first record what they
are about to move, under the same fence, and so lock it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from django.db import connections

from django_dbqueue.databases import Change, Claim, Event, Statement, dialect_of
from django_dbqueue.databases.recording import FAILURES, RESENT
from django_dbqueue.lifecycle.failures import failure_ids
from django_dbqueue.lifecycle.statements import fetch, run, short_transaction
from django_dbqueue.retry import outermost

Result = TypeVar("Result")

BATCH = 500


def move(using: str, change: Change, where: Statement) -> int:
    """Move the rows of a fence and record it; return how many. It joins the caller's transaction."""
    dialect = dialect_of(connections[using])
    return _recorded(using, change.event, where, partial(run, using, dialect.messages.move(change, where)), nothing=0)


def settle(using: str, change: Change, claims: list[Claim]) -> int:
    """Move, or remove, what these claims hold, and record it; return how many."""
    dialect = dialect_of(connections[using])
    statement = dialect.messages.settle(change, claims)
    return _recorded(using, change.event, dialect.messages.held(claims), partial(run, using, statement), nothing=0)


def settle_and_tell(using: str, change: Change, claims: list[Claim]) -> set[int]:
    """Do as ``settle`` does where UPDATE returns rows; return the ids that were moved."""
    dialect = dialect_of(connections[using])
    statement = dialect.messages.settle(change, claims, returning=True)

    def go_on() -> set[int]:
        return {row[0] for row in fetch(using, statement)}

    return _recorded(using, change.event, dialect.messages.held(claims), go_on, nothing=set())


def _recorded(
    using: str, event: Event | None, where: Statement, go_on: Callable[[], Result], *, nothing: Result
) -> Result:
    if event is None:
        return go_on()
    with short_transaction(using):
        if not run(using, dialect_of(connections[using]).events.record(event, where)):
            return nothing
        return go_on()


def resent(using: str, message: Any, new_id: int, *, actor: str | None) -> None:
    """Record that a message was sent again, as a new one, in the transaction that sends it."""
    same = Statement("id = %s", (message.pk,))
    run(using, dialect_of(connections[using]).events.record(Event(RESENT, f"#{new_id}", actor), same))


def blamed(using: str, change: Change, queues: Iterable[str]) -> Change:
    """Return a change that knows which kind of failure it is in each queue of its messages.

    What a person does is not a failure, and what gives no error has no kind.
    """
    event = change.event
    if event is None or event.kind not in FAILURES or event.actor or not event.text:
        return change
    names = sorted(set(queues))
    ids = failure_ids(using, [(name, event.text) for name in names])
    known = tuple((name, number) for name, number in zip(names, ids, strict=True) if number is not None)
    return change._replace(event=event._replace(failures=known))


def forget_events(using: str, *, age: float, limit: int) -> int:
    """Delete up to ``limit`` records older than ``age`` seconds; return how many."""
    forgotten = 0
    if not fetch(using, dialect_of(connections[using]).events.old(age, 1, lock=False)):
        return 0  # the usual case, and no transaction was opened
    while forgotten < limit:
        some = outermost(connections[using], partial(_forget_some, using, age, min(BATCH, limit - forgotten)))
        forgotten += some
        if some < BATCH:
            break
    return forgotten


def _forget_some(using: str, age: float, limit: int) -> int:
    dialect = dialect_of(connections[using])
    with short_transaction(using):
        ids = [row[0] for row in fetch(using, dialect.events.old(age, limit))]
        return run(using, dialect.events.delete(ids)) if ids else 0
