"""Who holds messages, and the mark by which a worker is called."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.states.table import Stage


def holders(server: Server, where: Statement) -> Statement:
    """Lock the rows of a fence that workers run, and return these workers' numbers."""
    return Statement(
        f"SELECT worker_id FROM {server.message}{server.use[Index.IDS]} "
        f"WHERE {where.sql} AND {Stage.CLAIMED.sql} AND worker_id IS NOT NULL ORDER BY id{server.lock_row}",
        where.params,
    )


def call(server: Server, workers: Sequence[int]) -> Statement:
    """Let these workers check, at their next beat, what they hold."""
    named = server.id_in(workers)
    return Statement(f"UPDATE {server.worker} SET is_called = TRUE WHERE {named.sql}", named.params)
