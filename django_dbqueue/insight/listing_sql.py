"""Ids for lists that people see: the first ones of many ranges, or of many keys, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement, holes
from django_dbqueue.states.depths_sql import Place, order_of, range_of

LATEST: Final = frozenset({"dead", "done"})
"""States whose rows are listed from the end of their range."""


def first_ids(server: Server, places: Sequence[Place], limit: int, overdue: Sequence[int]) -> Statement:
    """Read the number of the place, ``available_at`` and id of the first rows of each, up to the limit.

    ``overdue`` are the tokens of stream claims whose lease has expired: what they hold is stuck.
    """
    parts, params = [], []
    for number, place in enumerate(places):
        where = _shown(server, place, overdue)
        order = order_of(server, place)
        if place.state in LATEST:
            order = f"{order.replace(',', ' DESC,')} DESC"
        parts.append(
            f"SELECT {number} AS place, available_at, id FROM (SELECT available_at, id FROM {server.message}"
            f"{server.use[Index.CLAIM]} WHERE {where.sql} ORDER BY {order} LIMIT %s) AS listed"
        )
        params += [*where.params, limit]
    return Statement(" UNION ALL ".join(parts), tuple(params))


def latest_of_keys(server: Server, hashes: Sequence[str], limit: int) -> Statement:
    """Read the number of the key and the ids of its live message and of the most recently written ones."""
    parts: list[str] = []
    params: list[object] = []
    for number, each in enumerate(hashes):
        # The live one separately, since PostgreSQL orders it after all the others. With the id too, a server would
        # sort
        for such in ("AND live = 1 ", "ORDER BY live DESC "):
            parts.append(
                f"SELECT {number} AS place, id FROM (SELECT id FROM {server.message}"
                f"{server.use[Index.LIVE_KEY]} WHERE key_hash = %s {such}LIMIT %s) AS listed"
            )
            params += [each, limit]
    return Statement(" UNION ALL ".join(parts), tuple(params))


def latest_hours(server: Server, limit: int) -> Statement:
    """Read hour, queue and id of the latest roll-ups."""
    return Statement(
        f"SELECT hour, queue, id FROM {server.statistic}{server.use[Index.HOUR]} ORDER BY hour DESC LIMIT %s",
        (limit,),
    )


def _shown(server: Server, place: Place, overdue: Sequence[int]) -> Statement:
    where = range_of(server, place)
    if not overdue or place.state not in {"running", "stuck"}:
        return where
    held = f"(available_at = {server.parked} AND claim_token IN ({holes(len(overdue))}))"
    if place.state == "running":
        return Statement(f"{where.sql} AND NOT {held}", (*where.params, *overdue))
    return Statement(
        f"queue = %s AND status = '{place.status}' AND priority = %s AND (available_at <= {server.now} OR {held})",
        (place.queue, place.priority, *overdue),
    )
