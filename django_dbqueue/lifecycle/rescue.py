"""Rescue: run → n or dead, for rows whose lease has expired (consumers watch each other).

``liveness/dead_workers`` rescues earlier, when the worker that holds a message is found dead.

It has the shape of a claim: one bounded range of ``dbqueue_claim`` per priority among the running rows; rows are
locked, and locked ones skipped. Two rescuers never take the same row. A holder that settles at the same moment either
wins, and the rescue skips its row, or loses, and its statement changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django.db import DatabaseError

from django_dbqueue import signals
from django_dbqueue.claims import claims_sql
from django_dbqueue.databases.statement import Row, Statement, holes
from django_dbqueue.failures.failure_group_rows import with_failures
from django_dbqueue.lifecycle.moves import move
from django_dbqueue.sessions.apart import apart, name_refused
from django_dbqueue.sessions.django_session import DjangoSession, MessageType
from django_dbqueue.statements import moves_sql
from django_dbqueue.states.ranges_in_use import priorities_in_use, queues_in_use
from django_dbqueue.states.spent import is_spent
from django_dbqueue.states.table import Stage
from django_dbqueue.statuses import RUNNING

BATCH = 500
LEASE_EXPIRED = "LeaseOver: the lease ended without an answer; the handler hung, was cut off, or its process died."

_named = set[int]()
"""What the log has named: it is overdue at every check."""


def rescue(
    model: MessageType,
    session: DjangoSession,
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
    for queue in queues_in_use(session) if queues is None else queues:
        for priority in priorities_in_use(session, queue, RUNNING):
            while rows := session.outermost(partial(_rescue_range, session, queue, priority, but_token)):
                announce_rescued(model, session.using, queue, rows, "lease over", LEASE_EXPIRED)
                rescued += len(rows)
                if len(rows) < BATCH or (limit is not None and rescued >= limit):
                    break
    return rescued


def announce_rescued(
    model: MessageType, using: str, queue: str, rows: Sequence[Row], evidence: str, error: str
) -> None:
    """Send the signals for a queue's rescued messages.

    Each row begins with its id, its reads and its reads allowed, as they were before the rescue.
    """
    signals.message_rescued.send(model, queue=queue, message_ids=[row[0] for row in rows], evidence=evidence)
    for message_id, read_count, max_reads, *_ in rows:
        if is_spent(read_count, max_reads):
            fields = {"queue": queue, "message_id": message_id, "error": error, "attempt": read_count}
            signals.message_died.send(model, **fields, using=using)


def _rescue_range(session: DjangoSession, queue: str, priority: int, but_token: int | None) -> list[Row]:
    """Rescue the first that are overdue, and return them; what the server refuses to move is named, and stays."""
    server, refused = session.server, set[int]()
    with session.transaction():
        names = ("id", "read_count", "max_reads")
        rows = session.fetch(claims_sql.due(server, names, queue, RUNNING, priority, BATCH, but_token=but_token))
        if rows:
            change = with_failures(session, moves_sql.rescue(server, LEASE_EXPIRED), [queue])

            def rescue_these(ids: list[int]) -> None:
                where = Statement(f"id IN ({holes(len(ids))}) AND {Stage.CLAIMED.sql}", tuple(ids))
                move(session, change, where)

            def left(message_id: int, error: DatabaseError) -> None:
                refused.add(message_id)
                if message_id not in _named:
                    _named.add(message_id)
                    name_refused(message_id, error)

            apart([row[0] for row in rows], rescue_these, left)
    return [row for row in rows if row[0] not in refused]
