"""Ids for lists that people see: the first ones of many ranges, or of many keys, in one statement."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.states.table import STATES, Place, first_rows


def first_ids(server: Server, places: Sequence[Place], limit: int, overdue: Sequence[int]) -> Statement:
    """Read the number of the place, ``available_at`` and id of the first rows of each, up to the limit.

    ``overdue`` are the tokens of stream claims whose lease has expired: what they hold is stuck.
    """
    parts, params = list[str](), list[object]()
    for number, place in enumerate(places):
        backwards = STATES[place.state].latest_first
        rows = first_rows(server, place, "available_at, id", limit, overdue, backwards=backwards)
        parts.append(f"SELECT {number} AS place, available_at, id FROM ({rows.sql}) AS listed")
        params += rows.params
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
