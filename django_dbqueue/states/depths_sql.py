"""Queue depths and contents: a bounded range of the claim index per queue, state and priority."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement, holes
from django_dbqueue.statuses import DONE, NEW, RUNNING

_RANGES: Final = {
    "ready": (NEW, "available_at <= {now}"),
    "delayed": (NEW, "available_at > {now} AND available_at < {parked}"),
    "waiting": (NEW, "available_at = {parked}"),
    "running": (RUNNING, "available_at > {now}"),
    "stuck": (RUNNING, "available_at <= {now}"),
    "dead": (NEW, "available_at IS NULL"),
    "done": (DONE, "available_at IS NOT NULL"),
}


class Place(NamedTuple):
    """One range of the claim index. What streams hold is under ``running``, whatever their claims' leases say."""

    queue: str
    state: str
    priority: int

    @property
    def status(self) -> str:
        """The status of its rows."""
        return _RANGES[self.state][0]


def range_of(server: Server, place: Place) -> Statement:
    """Return the condition that a row is in this place."""
    status, moment = _RANGES[place.state]
    due = moment.format(now=server.now, parked=server.parked)
    return Statement(f"queue = %s AND status = '{status}' AND priority = %s AND {due}", (place.queue, place.priority))


def order_of(server: Server, place: Place) -> str:
    """Return the index's own order there."""
    return server.order_of_dead if place.state == "dead" else "available_at, id"


def counts(server: Server, places: Sequence[Place], limit: int) -> Statement:
    """Count the messages in each place, up to the limit: one row, with a column for each."""
    return _each(server, places, limit, "")


def counts_held(server: Server, places: Sequence[Place], tokens: Sequence[int], limit: int) -> Statement:
    """Count what streams hold there under one of these tokens, of which there is at least one."""
    held = f" AND available_at = {server.parked} AND claim_token IN ({holes(len(tokens))})"
    return _each(server, places, limit, held, tokens)


def _each(server: Server, places: Sequence[Place], limit: int, such: str, params: Sequence[object] = ()) -> Statement:
    counts: list[str] = []
    said: list[object] = []
    for place in places:
        where = range_of(server, place)
        # in the index's own order: without one, PostgreSQL would rather read the table for many rows
        counts.append(
            f"(SELECT COUNT(*) FROM (SELECT id FROM {server.message}{server.use[Index.CLAIM]} "
            f"WHERE {where.sql}{such} ORDER BY {order_of(server, place)} LIMIT %s) AS counted)"
        )
        said += [*where.params, *params, limit]
    return Statement(f"SELECT {', '.join(counts)}", tuple(said))


def oldest(server: Server, places: Sequence[Place]) -> Statement:
    """Read when the first message in each place became due, or NULL: one row, with a column for each."""
    firsts: list[str] = []
    said: list[object] = []
    for place in places:
        where = range_of(server, place)
        firsts.append(
            f"(SELECT available_at FROM {server.message}{server.use[Index.CLAIM]} WHERE {where.sql} "
            f"ORDER BY {order_of(server, place)} LIMIT 1)"
        )
        said += where.params
    return Statement(f"SELECT {', '.join(firsts)}", tuple(said))
