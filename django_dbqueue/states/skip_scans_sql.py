"""Steps of a skip scan over the claim index: one entry read for each answer."""

from __future__ import annotations

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement


def next_priority(server: Server, queue: str, status: str, below: int) -> Statement:
    """Take one step of a skip scan over the priorities in use: one index entry read."""
    return Statement(
        f"SELECT priority FROM {server.message}{server.use[Index.CLAIM]} WHERE queue = %s AND status = %s "
        "AND priority < %s ORDER BY priority DESC LIMIT 1",
        (queue, status, below),
    )


def next_queue(server: Server, after: str) -> Statement:
    """Take one step of a skip scan over the queues in use."""
    return Statement(
        f"SELECT queue FROM {server.message}{server.use[Index.CLAIM]} WHERE queue > %s ORDER BY queue LIMIT 1",
        (after,),
    )
