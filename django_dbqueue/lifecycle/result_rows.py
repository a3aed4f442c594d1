"""Results of tasks: kept by the transaction that acks their messages, forgotten when their time is over."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from django_dbqueue.databases.statements import Kept
from django_dbqueue.lifecycle.django_session import DjangoSession

BATCH = 500
ROWS = 200
"""Rows of one INSERT."""
INSERT_SIZE = 2_000_000
"""Characters of one INSERT, unless one row alone has more: a packet holds it, even escaped."""


def keep(session: DjangoSession, results: Mapping[int, Kept], acked: set[int]) -> None:
    """Write the results of those that were acked, in the transaction that acked them."""
    rows: list[tuple[int, Kept]] = []
    size = 0
    for message_id, kept in results.items():
        if message_id not in acked:
            continue
        if rows and (len(rows) == ROWS or size + len(kept.body) > INSERT_SIZE):
            session.run(session.dialect.results.insert(rows))
            rows, size = [], 0
        rows.append((message_id, kept))
        size += len(kept.body)
    if rows:
        session.run(session.dialect.results.insert(rows))


def forget_results(session: DjangoSession, *, limit: int) -> int:
    """Delete up to ``limit`` results that have been kept long enough; return how many."""
    if not session.fetch(session.dialect.results.expired(1, lock=False)):
        return 0  # the usual case, and no transaction was opened
    forgotten = 0
    while forgotten < limit:
        some = session.outermost(partial(_forget_some, session, min(BATCH, limit - forgotten)))
        forgotten += some
        if some < BATCH:
            break
    return forgotten


def _forget_some(session: DjangoSession, limit: int) -> int:
    results = session.dialect.results
    with session.transaction():
        ids = [row[0] for row in session.fetch(results.expired(limit))]
        return session.run(results.delete(ids)) if ids else 0
