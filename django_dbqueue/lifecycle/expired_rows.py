"""Rows that are forgotten when their time is over: results, senders' tokens, records of what happened, their groups.

What the server doesn't let go stays, and is named in the log (``left_behind``); the others go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from django.db import DatabaseError

from django_dbqueue.databases import Statement
from django_dbqueue.failures import failures_sql
from django_dbqueue.lifecycle import once_sql, results_sql
from django_dbqueue.lifecycle.left_behind import LeftBehind
from django_dbqueue.sessions.apart import apart
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.sessions.retry import is_refused
from django_dbqueue.statements import events_sql

BATCH: Final = 500
"""Rows that one transaction deletes."""
GROUPS: Final = 500
"""Groups of failures that are checked at a time."""


class _Expired(Protocol):
    def __call__(self, limit: int, *, lock: bool = True) -> Statement:
        """Return the statement that locks, or only reads, some rows whose time is over."""


_Delete = Callable[[DjangoSession, list[Any]], int]


def forget_results(session: DjangoSession, *, limit: int, left: LeftBehind | None = None) -> int:
    """Delete up to ``limit`` results that have been kept long enough; return how many.

    Each leaves a record in the life of its message, so that nobody takes it for one that returned None.
    """
    return forget_expired(
        session, partial(results_sql.expired, session.server), _delete_results, limit, left or LeftBehind("Result")
    )


def forget_tokens(session: DjangoSession, *, limit: int, left: LeftBehind | None = None) -> int:
    """Delete up to ``limit`` tokens that have expired; return how many."""
    return forget_expired(
        session, partial(once_sql.expired, session.server), _delete_tokens, limit, left or LeftBehind("Once")
    )


def forget_events(session: DjangoSession, *, age: float, limit: int, left: LeftBehind | None = None) -> int:
    """Delete up to ``limit`` records of what happened ``age`` seconds ago or earlier; return how many."""
    return forget_expired(
        session, partial(events_sql.old, session.server, age), _delete_events, limit, left or LeftBehind("MessageEvent")
    )


def forget_expired(session: DjangoSession, expired: _Expired, delete: _Delete, limit: int, left: LeftBehind) -> int:
    """Delete those of ``limit`` rows that the server lets go, ``BATCH`` in each transaction; return how many."""
    forgotten = tried = 0
    while tried < limit:
        batch, known = min(BATCH, limit - tried), left.met
        if not left.unmet(row[0] for row in session.fetch(expired(1 + known, lock=False))):
            break  # the usual case, and no transaction was opened
        found, gone = _forget_some(session, partial(expired, batch + known), delete, batch, left)
        forgotten, tried = forgotten + gone, tried + found
        if found < batch:
            break
    return forgotten


def _forget_some(
    session: DjangoSession, expired: Callable[[], Statement], delete: _Delete, batch: int, left: LeftBehind
) -> tuple[int, int]:
    """Delete what the server lets go of a batch; return how many rows it had, and how many were deleted."""
    keys, gone = list[Any](), list[int]()

    def delete_them(some: Sequence[Any] | None = None) -> int:
        with session.transaction():
            locked = left.unmet(row[0] for row in session.fetch(expired()))
            keys[:] = locked[:batch] if some is None else [each for each in locked if each in some]
            free = left.without(session, keys)
            return delete(session, free) if free else 0

    try:
        gone.append(session.outermost(delete_them))
    except DatabaseError as error:
        if not is_refused(error):
            raise
        refused = list(keys)
        apart(refused, lambda some: gone.append(session.outermost(partial(delete_them, some))), left.refused)
        return len(refused), sum(gone)
    return len(keys), gone[0]


def forget_failures(session: DjangoSession, *, age: float, after: int = 0, left: LeftBehind | None = None) -> int:
    """Delete groups older than ``age`` seconds that have no event left, among a batch after an id.

    Return the id to continue after, or 0 when all were checked. A failure that coincides with the deletion of its group
    belongs to none; the next one creates the group again.
    """
    server, left = session.server, left or LeftBehind("Failure")
    rows = session.fetch(failures_sql.forgotten(server, after, age, GROUPS))

    def delete(some: list[int]) -> None:
        with session.transaction():
            if free := left.without(session, some):
                session.run(failures_sql.delete(server, free))

    apart(
        left.unmet(row[0] for row in rows if row[1]),
        lambda some: session.outermost(partial(delete, some)),
        left.refused,
    )
    return int(rows[-1][0]) if len(rows) == GROUPS else 0


def _delete_results(session: DjangoSession, messages: list[int]) -> int:
    if places := [(row[0], row[1]) for row in session.fetch(results_sql.places(session.server, messages))]:
        session.run(results_sql.note_forgotten(session.server, places))
    return session.run(results_sql.delete(session.server, messages))


def _delete_events(session: DjangoSession, ids: list[int]) -> int:
    return session.run(events_sql.delete(session.server, ids))


def _delete_tokens(session: DjangoSession, hashes: list[str]) -> int:
    return session.run(once_sql.delete(session.server, hashes))
