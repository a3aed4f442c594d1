"""What has no reads left becomes dead: it joins a group of failures, and its death is recorded, and told.

A stream's processes have no Django, and so nobody there who could listen to its signals: they log. In a process with
Django, the app listens here, and sends the signal, whose log it is then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from django_dbqueue.databases import Change, Claim, Statement
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import MAX_IDS, SPENT_BEFORE, chunks
from django_dbqueue.failures.failure_group_rows import with_failures
from django_dbqueue.statements import events_sql, moves_sql

logger = logging.getLogger("django_dbqueue")


class Death(NamedTuple):
    """A message that is dead since a commit."""

    queue: str
    message: int
    error: str


Listener = Callable[[Death], object]
_listeners: list[Listener] = []


def bury(session: Session, queue: str, claims: Sequence[Claim], error: str | None = None) -> Change:
    """Make dead what these claims hold, in the caller's transaction; return the change, for lanes and flows.

    ``error`` is what their last delivery failed with; that delivery stays charged. None: this claim is one too many,
    and is not charged.
    """
    died = moves_sql.bury(session.server, error or SPENT_BEFORE, charged=error is not None)
    change = with_failures(session, died, [queue])
    for some in chunks(claims, MAX_IDS):
        move(session, change, moves_sql.held(session.server, some))
    return change


def move(session: Session, change: Change, where: Statement) -> int:
    """Record what the rows of a fence go through, if it is an event, and move them; return how many."""
    if change.event is not None:
        session.run(events_sql.record(session.server, change.event, where))
    return session.run(moves_sql.move(session.server, change, where))


def listen(listener: Listener) -> None:
    """Let this be called with each death of a message in a stream, in place of the log."""
    if listener not in _listeners:
        _listeners.append(listener)


def announce(deaths: Iterable[Death]) -> None:
    """Tell of deaths once they are committed."""
    for death in deaths:
        for listener in _listeners:
            listener(death)
        if not _listeners:
            logger.error("message %s of %s is dead: %s", death.message, death.queue, death.error)
