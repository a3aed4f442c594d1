"""What an observer wants to know and no row counts: the newest messages, and who holds which."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.states.table import Stage


def newest(server: Server, seconds: float, limit: int) -> Statement:
    """Summarise the newest messages by queue: queue, all, those of the last seconds, when the first was sent."""
    return Statement(
        f"SELECT queue, COUNT(*), SUM(CASE WHEN created_at >= {server.plus(server.now, '%s')} "
        "THEN 1 ELSE 0 END), MIN(created_at) FROM (SELECT queue, created_at "
        f"FROM {server.message}{server.use[Index.IDS]} ORDER BY id DESC LIMIT %s) AS counted GROUP BY queue",
        (-seconds, limit),
    )


def in_hands(server: Server, ranges: Sequence[tuple[str, int]], limit: int) -> Statement:
    """Read what workers hold in these ranges (queue, priority), ``limit`` rows each: worker, id, queue, since."""
    each = (
        f"SELECT * FROM (SELECT worker_id, id, queue, claimed_at FROM {server.message}"
        f"{server.use[Index.CLAIM]} WHERE queue = %s AND {Stage.CLAIMED.sql} AND priority = %s "
        "ORDER BY available_at, id LIMIT %s) AS few"
    )
    return Statement(
        " UNION ALL ".join([each] * len(ranges)),
        tuple(value for queue, priority in ranges for value in (queue, priority, limit)),
    )
