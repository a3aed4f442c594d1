"""The messages that streams hold: ``run`` under their claim's token, and parked."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Change, Statement, holes
from django_dbqueue.states.table import ACKED, Stage
from django_dbqueue.statuses import NEW

_DELIVERABLE = f"({Stage.CLAIMED.sql} OR {ACKED})"
"""What a claim holds, or has acked."""


def charge_again() -> Change:
    """run → run, one more delivery."""
    return Change("read_count = read_count + 1", ())


def between(first: int, last: int) -> Statement:
    """Return all ids from the first to the last."""
    return Statement("id BETWEEN %s AND %s", (first, last))


def named(ids: Sequence[int]) -> Statement:
    """Return these ids."""
    return Statement(f"id IN ({holes(len(ids))})", tuple(ids))


def behind(among: Statement, message: int) -> Statement:
    """Return those with higher ids."""
    return Statement(f"{among.sql} AND id > %s", (*among.params, message))


def waiting(among: Statement) -> Statement:
    """Return the fence of rows that wait."""
    return Statement(f"{among.sql} AND status = '{NEW}'", among.params)


def held_in_claim(among: Statement, token: int) -> Statement:
    """Return the fence of what a claim still holds of these rows."""
    return Statement(f"{among.sql} AND {Stage.CLAIMED.sql} AND claim_token = %s", (*among.params, token))


def parked(server: Server, among: Statement, token: int) -> Statement:
    """Read and lock what a claim still holds of these rows: id, reads, reads allowed, lane."""
    fence = held_in_claim(among, token)
    return Statement(
        f"SELECT id, read_count, max_reads, lane FROM {server.message}{server.use[Index.IDS]} "
        f"WHERE {fence.sql} ORDER BY id{server.lock_row}",
        fence.params,
    )


def delivered(server: Server, columns: str, among: Statement, token: int) -> Statement:
    """Read what a claim holds of these rows, or has acked of them, in id order."""
    return Statement(
        f"SELECT {columns} FROM {server.message}{server.use[Index.IDS]} WHERE {among.sql} "
        f"AND claim_token = %s AND {_DELIVERABLE} ORDER BY id",
        (*among.params, token),
    )


def count_delivered(server: Server, among: Statement, token: int) -> Statement:
    """Count what ``delivered`` reads."""
    return Statement(
        f"SELECT COUNT(*) FROM {server.message}{server.use[Index.IDS]} WHERE {among.sql} AND claim_token = %s "
        f"AND {_DELIVERABLE}",
        (*among.params, token),
    )
