"""The claim's statements, and those of a rescue, which has the same shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import OWN_LEASE, Change, InOrder, Mark, Statement
from django_dbqueue.statements.message_columns import MOMENTS, RETURNED_COLUMNS
from django_dbqueue.states.spent import spent
from django_dbqueue.statuses import NEW, RUNNING


def due(
    server: Server,
    names: Sequence[str],
    queue: str,
    status: str,
    priority: int,
    limit: int,
    mark: Mark | None = None,
    *,
    but_token: int | None = None,
    until: object = None,
    moments_as_text: bool = False,
    most_bytes: int | None = None,
) -> Statement:
    """Lock the first due rows of one range of the claim index, in its own order, skipping locked ones.

    Besides these columns it returns the clock's time. ``until`` is a moment after which nothing counts as due.
    ``most_bytes``: a larger body is returned as NULL.
    """
    if moments_as_text:
        columns, now = _columns_as_text(server, tuple(names), most_bytes), server.as_text.format(server.now)
    else:
        columns, now = server.columns(names), server.now
    behind, params = Statement(f"available_at <= {server.now}", ())
    if mark is not None and server.keeps_entries:
        behind, params = server.behind(("available_at", "id"), mark, upto=server.now)
    if until is not None:
        behind, params = f"{behind} AND available_at <= %s", (*params, until)
    if but_token is not None:
        behind, params = f"{behind} AND claim_token <> %s", (*params, but_token)
    return InOrder(
        f"SELECT {columns}, {now} FROM {server.message}{server.use[Index.CLAIM]} "
        f"WHERE queue = %s AND status = %s AND priority = %s AND {behind} "
        f"ORDER BY available_at, id LIMIT %s{server.skip_locked}",
        (queue, status, priority, *params, limit),
    )


@cache
def _columns_as_text(server: Server, names: tuple[str, ...], most_bytes: int | None) -> str:
    quoted = {name: server.columns([name]) for name in names} | {
        "body": _body(server, server.columns(["body"]), most_bytes)
    }
    return ", ".join(server.as_text.format(one) if name in MOMENTS else one for name, one in quoted.items())


@cache
def _columns_of(server: Server, names: tuple[str, ...], row: str, most_bytes: int | None) -> str:
    whole, body = server.columns(names, row), server.columns(["body"], row)
    return whole.replace(body, _body(server, body, most_bytes))


def _body(server: Server, body: str, most_bytes: int | None) -> str:
    if most_bytes is None:
        return body
    return f"CASE WHEN {server.size_of.format(body)} <= {most_bytes:d} THEN {body} END" if most_bytes else "NULL"


def take(
    server: Server,
    *,
    token: int,
    worker_id: int | None,
    session: int | None,
    lease: float,
    max_reads: int,
    now: object,
    own_lease: str = OWN_LEASE,
    parks: bool = False,
) -> Change:
    """n → run. ``now`` is the moment that the locking SELECT returned, or None for the statement's own.

    ``own_lease`` is the SQL for the message's own lease, NULL for none. ``parks``: a stream's, for which the lease of
    its claim counts.
    """
    moment, at = (server.now, ()) if now is None else ("%s", (now,))
    owner, owner_params = (server.session_id, ()) if server.session_id else ("%s", (session,))
    due, due_params = server.plus(moment, f"COALESCE({own_lease}, %s)"), (*at, lease)
    if parks:
        due, due_params = server.parked, ()
    return Change(
        f"status = '{RUNNING}', conn_id = {owner}, worker_id = %s, claim_token = %s, read_count = read_count + 1, "
        f"claimed_at = {moment}, available_at = {due}, "
        f"lease_seconds = COALESCE({own_lease}, %s), max_reads = COALESCE(max_reads, %s), finished_at = NULL",
        (*owner_params, worker_id, token, *at, *due_params, lease, max_reads),
    )


def claim(
    server: Server,
    queue: str,
    priority: int,
    limit: int,
    mark: Mark | None,
    change: Change,
    *,
    most_bytes: int | None = None,
) -> Statement:
    """Lock, take and return in one statement (PostgreSQL). ``most_bytes``: a larger body is returned as NULL.

    The last column is when each row was due, in UTC without saying so, which the driver reads in C.

    Rows are found by their physical place, without a search. When joined by id, the picked rows were compared with
    all waiting ones if the table was small when the server last gathered statistics.
    """
    returned = _columns_of(server, RETURNED_COLUMNS, "m.", most_bytes)
    picked = due(server, ("ctid", "available_at"), queue, NEW, priority, limit, mark)
    return InOrder(
        f"WITH picked (place, was_due, taken_at) AS MATERIALIZED ({picked.sql}) "
        f"UPDATE {server.message} AS m SET {change.sql} FROM picked WHERE m.ctid = picked.place "
        f"RETURNING {returned}, picked.was_due AT TIME ZONE 'UTC' AS was_due",
        picked.params + change.params,
    )


def take_ids(server: Server, ids: Sequence[int], change: Change, returning: str = "") -> Statement:
    """Take rows that the same transaction has locked."""
    named = server.id_in(ids)
    return Statement(
        f"UPDATE {server.message}{server.use[Index.IDS]} SET {change.sql} WHERE {named.sql} "
        f"AND status = '{NEW}'{returning}",
        (*change.params, *named.params),
    )


def take_ids_and_return(
    server: Server, ids: Sequence[int], change: Change, names: Sequence[str], most_bytes: int | None
) -> Statement:
    """Take rows that the same transaction has locked, and return them (PostgreSQL)."""
    return take_ids(server, ids, change, f" RETURNING {_columns_of(server, tuple(names), '', most_bytes)}")


def parked(
    server: Server, ids: Sequence[int], names: Sequence[str], most_bytes: int | None, max_reads: int
) -> Statement:
    """Lock those of these rows that wait for nothing but their turn, skipping locked ones; as ``due`` returns them.

    Not those that no ordinary claim would give out now, or that must run alone.
    """
    named = server.id_in(ids)
    is_spent = spent("read_count", f"COALESCE(max_reads, {max_reads:d})")
    return Statement(
        f"SELECT {_columns_as_text(server, tuple(names), most_bytes)}, {server.as_text.format(server.now)} "
        f"FROM {server.message}{server.use[Index.IDS]} WHERE {named.sql} AND status = '{NEW}' "
        f"AND available_at = {server.parked} AND due_at <= {server.now} AND crashes = 0 "
        f"AND NOT {is_spent} ORDER BY id{server.skip_locked}",
        named.params,
    )
