"""Which rows may be moved, and how: the fences of holders and operators, and what is read under them."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Change, Claim, InOrder, Statement
from django_dbqueue.states.table import DROPPED, Stage


def held(server: Server, claims: Sequence[Claim]) -> Statement:
    """Return the fence: these rows, running, each under the token of its holder."""
    if len(claims) == 1:
        return Statement(f"id = %s AND {Stage.CLAIMED.sql} AND claim_token = %s", tuple(claims[0]))
    ids, under = server.id_in([claim.id for claim in claims]), _under_tokens(server, claims)
    return Statement(f"{ids.sql}{under.sql}", (*ids.params, *under.params))


def _under_tokens(server: Server, claims: Sequence[Claim]) -> Statement:
    token = _token_of(server, claims)
    return Statement(f" AND {Stage.CLAIMED.sql} AND claim_token = {token.sql}", token.params)


def read_body(server: Server, claim: Claim) -> Statement:
    """Read the body of what this claim still holds."""
    fence = held(server, [claim])
    return Statement(f"SELECT body FROM {server.message} WHERE {fence.sql}", fence.params)


def _token_of(server: Server, claims: Sequence[Claim]) -> Statement:
    """Return SQL for a row's token, with one list of ids per token.

    A few claims took many rows, and each row is compared with each list.
    """
    under: dict[int | None, list[int]] = {}
    for message_id, token in claims:
        if (ids := under.get(token)) is None:
            ids = under[token] = []
        ids.append(message_id)
    *others, last = under
    if not others:
        return Statement("%s", (last,))
    named = [(server.id_in(under[token]), token) for token in others]
    whens = " ".join(f"WHEN {some.sql} THEN %s" for some, _ in named)
    params = tuple(value for some, token in named for value in (*some.params, token))
    return Statement(f"CASE {whens} ELSE %s END", (*params, last))


def move(server: Server, change: Change, where: Statement, *, returning: bool = False) -> Statement:
    """Move the rows of a fence."""
    tail = " RETURNING id" if returning else ""
    return Statement(
        f"UPDATE {server.message}{server.use[Index.IDS]} SET {change.sql} WHERE {where.sql}{tail}",
        change.params + where.params,
    )


def settle(server: Server, change: Change, claims: Sequence[Claim], *, returning: bool = False) -> Statement:
    """Move, or remove, the rows that these claims hold."""
    if not change.removes:
        return move(server, change, held(server, claims), returning=returning)
    ids = [(claim.id,) for claim in claims]
    statement = server.delete_each(server.message, ("id",), ids, such=_under_tokens(server, claims))
    return Statement(f"{statement.sql} RETURNING id", statement.params) if returning else statement


def lock(server: Server, where: Statement, *, skip_locked: bool = False) -> Statement:
    """Lock the rows of a fence and return their ids, ascending."""
    lock = server.skip_locked if skip_locked else server.lock_row
    return Statement(
        f"SELECT id FROM {server.message}{server.use[Index.IDS]} WHERE {where.sql} ORDER BY id{lock}",
        where.params,
    )


def ties(server: Server, where: Statement) -> Statement:
    """Lock the rows of a fence that are in a lane or a flow, and read what ties them to others."""
    return Statement(
        f"SELECT id, queue, lane, flow FROM {server.message}{server.use[Index.IDS]} "
        f"WHERE {where.sql} AND (lane IS NOT NULL OR flow IS NOT NULL) ORDER BY id{server.lock_row}",
        where.params,
    )


def dead_of(server: Server, ids: Sequence[int]) -> Statement:
    """Return the condition that a row is one of these, and dead."""
    named = server.id_in(ids)
    return Statement(f"{named.sql} AND {Stage.DEAD.sql}", named.params)


def states(server: Server, ids: Sequence[int]) -> Statement:
    """Read the state of these rows: id, status, and the token of the claim that set it (NULL: it was dropped)."""
    named = server.id_in(ids)
    return Statement(
        f"SELECT id, status, CASE WHEN {DROPPED} THEN NULL ELSE claim_token END "
        f"FROM {server.message}{server.use[Index.IDS]} WHERE {named.sql}",
        named.params,
    )


def owned(server: Server, queues: Sequence[str], worker_id: int) -> Statement:
    """Read what a worker holds: id, token, among the running rows of its queues; SQLite takes 500 of them."""
    # Queue by queue in index order: with stale statistics, a list of queues makes PostgreSQL read the whole table
    each = (
        f"SELECT * FROM (SELECT id, claim_token FROM {server.message}{server.use[Index.CLAIM]} WHERE queue = %s "
        f"AND {Stage.CLAIMED.sql} AND worker_id = %s ORDER BY priority, available_at) AS held"
    )
    return InOrder(
        " UNION ALL ".join([each] * len(queues)), tuple(value for queue in queues for value in (queue, worker_id))
    )
