"""Rescue: run → n or dead, for rows whose lease has expired (consumers watch each other, no guardian is needed).

It has the shape of a claim: one bounded range of ``dbqueue_claim`` per priority among the running rows; rows are
locked, and locked ones skipped. Two rescuers never take the same row. A holder that settles at the same moment either
wins, and the rescue skips its row, or loses, and its statement changes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import connections

from django_dbqueue import signals
from django_dbqueue.databases import dialect_of
from django_dbqueue.databases.words import Statement
from django_dbqueue.lifecycle.claim import priorities_in_use
from django_dbqueue.lifecycle.ranges import queues_in_use
from django_dbqueue.lifecycle.recording import blamed, move
from django_dbqueue.lifecycle.statements import MessageType, fetch, short_transaction
from django_dbqueue.retry import outermost
from django_dbqueue.statuses import RUNNING

BATCH = 500
LEASE_OVER = "LeaseOver: the lease ended without an answer; the handler hung, was cut off, or its process died."


def rescue(
    model: MessageType,
    using: str,
    queues: list[str] | None = None,
    *,
    limit: int | None = None,
    but_token: int | None = None,
) -> int:
    """Rescue what is overdue in these queues (None: in all); return how many.

    It stops soon after ``limit``. Rows under ``but_token`` are skipped: a claim that rescues before it tries again must
    not find the rows that it has just taken with a lease of 0.
    """
    rescued = 0
    for queue in queues_in_use(using) if queues is None else queues:
        for priority in priorities_in_use(using, queue, RUNNING):
            while rows := outermost(connections[using], partial(_rescue_range, using, queue, priority, but_token)):
                _tell(model, queue, rows)
                rescued += len(rows)
                if len(rows) < BATCH or (limit is not None and rescued >= limit):
                    break
    return rescued


def _tell(model: MessageType, queue: str, rows: list[tuple[Any, ...]]) -> None:
    signals.message_rescued.send(model, queue=queue, message_ids=[row[0] for row in rows], evidence="lease over")
    for message_id, read_count, max_reads, _ in rows:
        if 0 < (max_reads or 0) <= read_count:
            signals.message_died.send(model, queue=queue, message_id=message_id, error=LEASE_OVER)


def _rescue_range(using: str, queue: str, priority: int, but_token: int | None) -> list[tuple[Any, ...]]:
    dialect = dialect_of(connections[using])
    with short_transaction(using):
        names = ("id", "read_count", "max_reads")
        rows = fetch(using, dialect.claims.due(names, queue, RUNNING, priority, BATCH, but_token=but_token))
        ids: list[Any] = [row[0] for row in rows]
        if ids:
            where = Statement(f"id IN ({dialect.sql.holes(len(ids))}) AND status = '{RUNNING}'", tuple(ids))
            move(using, blamed(using, dialect.messages.rescue(LEASE_OVER), [queue]), where)
    return rows
