"""Rows that are forgotten when their time is over: results of tasks, senders' tokens, steps of what has ended."""

from __future__ import annotations

from functools import partial
from typing import Final

from django_dbqueue.databases.once_sql import OnceSQL
from django_dbqueue.databases.results_sql import ResultsSQL
from django_dbqueue.sessions.django_session import DjangoSession

BATCH: Final = 500
"""Rows that one transaction deletes."""


def forget_results(session: DjangoSession, *, limit: int) -> int:
    """Delete up to ``limit`` results that have been kept long enough; return how many.

    Each leaves a record in the life of its message, so that nobody takes it for one that returned None.
    """
    return _forget(session, session.dialect.results, limit)


def forget_tokens(session: DjangoSession, *, limit: int) -> int:
    """Delete up to ``limit`` tokens that have expired; return how many."""
    return _forget(session, session.dialect.once, limit)


def _forget(session: DjangoSession, rows: ResultsSQL | OnceSQL, limit: int) -> int:
    if not session.fetch(rows.expired(1, lock=False)):
        return 0  # the usual case, and no transaction was opened
    forgotten = 0
    while forgotten < limit:
        batch = min(BATCH, limit - forgotten)
        some = session.outermost(partial(_forget_some, session, rows, batch))
        forgotten += some
        if some < batch:
            break
    return forgotten


def _forget_some(session: DjangoSession, rows: ResultsSQL | OnceSQL, limit: int) -> int:
    with session.transaction():
        some = [row[0] for row in session.fetch(rows.expired(limit))]
        if not some:
            return 0
        if isinstance(rows, ResultsSQL) and (places := [(row[0], row[1]) for row in session.fetch(rows.places(some))]):
            session.run(rows.note_forgotten(places))
        return session.run(rows.delete(some))


def forget_steps(session: DjangoSession, ids: list[int]) -> None:
    """Delete the steps of messages that end, or start over, in the caller's transaction; skip it if there are none."""
    steps = session.dialect.steps
    if ids and session.fetch(steps.any()):
        for statement in steps.forget(ids):
            session.run(statement)
