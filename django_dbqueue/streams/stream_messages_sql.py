"""The messages that streams hold: ``run`` under their claim's token, and parked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import SAID_LEASE, Change, InOrder, Mark, Statement, holes
from django_dbqueue.states.table import ACKED, Stage
from django_dbqueue.statuses import NEW, RUNNING

_DELIVERABLE = f"({Stage.CLAIMED.sql} OR {ACKED})"
"""What a claim holds, or has acked."""


class Among(NamedTuple):
    """Messages by id: all from the first to the last, or the ids named."""

    sql: str
    params: tuple[int, ...]


def due_for_stream(
    server: Server, queue: str, priority: int, limit: int, mark: Mark | None, until: object
) -> Statement:
    """Lock the first due rows of one range of the claim index, in its own order, skipping locked ones.

    ``until`` is a moment by the database's clock after which nothing counts as due, or None: now.
    """
    behind, params = server.after(mark)
    if until is not None:
        behind, params = f"{behind} AND available_at <= %s", (*params, until)
    return InOrder(
        f"SELECT id, available_at, read_count, max_reads, lane FROM {server.message}{server.use[Index.CLAIM]} "
        f"WHERE queue = %s AND status = '{NEW}' AND priority = %s AND {behind} "
        f"ORDER BY available_at, id LIMIT %s{server.skip_locked}",
        (queue, priority, *params, limit),
    )


def park(server: Server, *, token: int, session: int | None, lease: float, max_reads: int) -> Change:
    """n → run, for a stream: like ``take``, but the lease is the claim's."""
    owner, owner_params = (server.session_id, ()) if server.session_id else ("%s", (session,))
    return Change(
        f"status = '{RUNNING}', conn_id = {owner}, worker_id = NULL, claim_token = %s, "
        f"read_count = read_count + 1, claimed_at = {server.now}, available_at = {server.parked}, "
        f"lease_seconds = COALESCE({SAID_LEASE}, %s), max_reads = COALESCE(max_reads, %s), finished_at = NULL",
        (*owner_params, token, lease, max_reads),
    )


def charge_again() -> Change:
    """run → run, one more delivery."""
    return Change("read_count = read_count + 1", ())


def between(first: int, last: int) -> Among:
    """Return all ids from the first to the last."""
    return Among("id BETWEEN %s AND %s", (first, last))


def named(ids: Sequence[int]) -> Among:
    """Return these ids."""
    return Among(f"id IN ({holes(len(ids))})", tuple(ids))


def behind(among: Among, message: int) -> Among:
    """Return those with higher ids."""
    return Among(f"{among.sql} AND id > %s", (*among.params, message))


def move_due(server: Server, change: Change, among: Among) -> Statement:
    """Move rows that wait, and that the same transaction has locked."""
    fence = waiting(among)
    return Statement(
        f"UPDATE {server.message}{server.use[Index.IDS]} SET {change.sql} WHERE {fence.sql}",
        change.params + fence.params,
    )


def move_parked(server: Server, change: Change, among: Among, token: int) -> Statement:
    """Move what a claim still holds of these rows."""
    fence = held_in_claim(among, token)
    return Statement(
        f"UPDATE {server.message}{server.use[Index.IDS]} SET {change.sql} WHERE {fence.sql}",
        change.params + fence.params,
    )


def waiting(among: Among) -> Statement:
    """Return the fence of rows that wait."""
    return Statement(f"{among.sql} AND status = '{NEW}'", among.params)


def held_in_claim(among: Among, token: int) -> Statement:
    """Return the fence of what a claim still holds of these rows."""
    return Statement(f"{among.sql} AND {Stage.CLAIMED.sql} AND claim_token = %s", (*among.params, token))


def parked(server: Server, among: Among, token: int) -> Statement:
    """Read and lock what a claim still holds of these rows: id, reads, reads allowed, lane."""
    return Statement(
        f"SELECT id, read_count, max_reads, lane FROM {server.message}{server.use[Index.IDS]} "
        f"WHERE {among.sql} AND {Stage.CLAIMED.sql} AND claim_token = %s ORDER BY id{server.lock_row}",
        (*among.params, token),
    )


def delivered(server: Server, columns: str, among: Among, token: int) -> Statement:
    """Read what a claim holds of these rows, or has acked of them, in id order."""
    return Statement(
        f"SELECT {columns} FROM {server.message}{server.use[Index.IDS]} WHERE {among.sql} "
        f"AND claim_token = %s AND {_DELIVERABLE} ORDER BY id",
        (*among.params, token),
    )


def count_delivered(server: Server, among: Among, token: int) -> Statement:
    """Count what ``delivered`` reads."""
    return Statement(
        f"SELECT COUNT(*) FROM {server.message}{server.use[Index.IDS]} WHERE {among.sql} AND claim_token = %s "
        f"AND {_DELIVERABLE}",
        (*among.params, token),
    )
