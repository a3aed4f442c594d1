"""Rows that are forgotten when their time is over: results of tasks, senders' tokens, records of what happened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from django_dbqueue.databases import Statement
from django_dbqueue.lifecycle import once_sql, results_sql
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import events_sql

BATCH: Final = 500
"""Rows that one transaction deletes."""


class _Expired(Protocol):
    def __call__(self, limit: int, *, lock: bool = True) -> Statement:
        """Return the statement that locks, or only reads, some rows whose time is over."""


_Delete = Callable[[DjangoSession, list[Any]], int]


def forget_results(session: DjangoSession, *, limit: int) -> int:
    """Delete up to ``limit`` results that have been kept long enough; return how many.

    Each leaves a record in the life of its message, so that nobody takes it for one that returned None.
    """
    return forget_expired(session, partial(results_sql.expired, session.server), _delete_results, limit)


def forget_tokens(session: DjangoSession, *, limit: int) -> int:
    """Delete up to ``limit`` tokens that have expired; return how many."""
    return forget_expired(session, partial(once_sql.expired, session.server), _delete_tokens, limit)


def forget_events(session: DjangoSession, *, age: float, limit: int) -> int:
    """Delete up to ``limit`` records of what happened ``age`` seconds ago or earlier; return how many."""
    return forget_expired(session, partial(events_sql.old, session.server, age), _delete_events, limit)


def forget_expired(session: DjangoSession, expired: _Expired, delete: _Delete, limit: int) -> int:
    """Delete up to ``limit`` rows that a statement finds, ``BATCH`` in each transaction; return how many."""
    if not session.fetch(expired(1, lock=False)):
        return 0  # the usual case, and no transaction was opened
    forgotten = 0
    while forgotten < limit:
        batch = min(BATCH, limit - forgotten)
        some = session.outermost(partial(_forget_some, session, expired(batch), delete))
        forgotten += some
        if some < batch:
            break
    return forgotten


def _forget_some(session: DjangoSession, expired: Statement, delete: _Delete) -> int:
    with session.transaction():
        some = [row[0] for row in session.fetch(expired)]
        return delete(session, some) if some else 0


def _delete_results(session: DjangoSession, messages: list[int]) -> int:
    if places := [(row[0], row[1]) for row in session.fetch(results_sql.places(session.server, messages))]:
        session.run(results_sql.note_forgotten(session.server, places))
    return session.run(results_sql.delete(session.server, messages))


def _delete_events(session: DjangoSession, ids: list[int]) -> int:
    return session.run(events_sql.delete(session.server, ids))


def _delete_tokens(session: DjangoSession, hashes: list[str]) -> int:
    return session.run(once_sql.delete(session.server, hashes))
