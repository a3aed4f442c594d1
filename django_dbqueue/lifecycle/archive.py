"""Archive and purge: finished rows move into the history, in bounded transactions.

Rows are locked, copied and deleted in one transaction, so that a kill at any statement leaves each message in
exactly one of the two tables. Two archivers at once take different rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from django.db import connections

from django_dbqueue.databases import dialect_of
from django_dbqueue.databases.words import Statement
from django_dbqueue.lifecycle.claim import priorities_in_use
from django_dbqueue.lifecycle.statements import MAX_IDS, chunks, fetch, run, short_transaction
from django_dbqueue.retry import outermost
from django_dbqueue.statuses import DONE

BATCH = 500


def archive(using: str, queue: str, *, age: float, limit: int | None = None) -> int:
    """Move done rows of a queue that finished ``age`` seconds ago or earlier; return how many."""
    dialect = dialect_of(connections[using])
    moved = 0
    for priority in priorities_in_use(using, queue, DONE):
        while wanted := BATCH if limit is None else min(BATCH, limit - moved):
            find = dialect.finished(queue, priority, age, wanted)
            batch = outermost(connections[using], partial(_move, using, find))
            moved += batch
            if batch < wanted:
                break
    return moved


def purge(using: str, ids: Iterable[int]) -> int:
    """Move those of the rows that are done or dead, now; return how many."""
    dialect = dialect_of(connections[using])
    moved = 0
    for chunk in chunks(ids, MAX_IDS):
        find = dialect.lock_finished(chunk)
        moved += outermost(connections[using], partial(_move, using, find))
    return moved


def _move(using: str, find: Statement) -> int:
    dialect = dialect_of(connections[using])
    with short_transaction(using):
        ids = [row[0] for row in fetch(using, find)]
        if ids:
            run(using, dialect.copy_to_archive(ids))
            run(using, dialect.delete(ids))
    return len(ids)
