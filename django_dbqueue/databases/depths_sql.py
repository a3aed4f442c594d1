"""Queue depths and contents: a bounded range of the claim index per queue, state and priority."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server, Subject
from django_dbqueue.databases.statements import Statement, holes
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


def range_of(sql: Server, place: Place) -> Statement:
    """Return the condition that a row is in this place."""
    status, moment = _RANGES[place.state]
    return Statement(
        f"queue = %s AND status = '{status}' AND priority = %s AND {moment.format(now=sql.now, parked=sql.parked)}",
        (place.queue, place.priority),
    )


def order_of(sql: Server, place: Place) -> str:
    """Return the index's own order there."""
    return sql.order_of_dead if place.state == "dead" else "available_at, id"


class DepthsSQL(Subject):
    """Count ranges up to a limit, and read them page by page."""

    def counts(self, places: Sequence[Place], limit: int) -> Statement:
        """Count the messages in each place, up to the limit: one row, with a column for each."""
        return self._each(places, limit, "")

    def counts_held(self, places: Sequence[Place], tokens: Sequence[int], limit: int) -> Statement:
        """Count what streams hold there under one of these tokens, of which there is at least one."""
        held = f" AND available_at = {self.sql.parked} AND claim_token IN ({holes(len(tokens))})"
        return self._each(places, limit, held, tokens)

    def _each(self, places: Sequence[Place], limit: int, such: str, params: Sequence[object] = ()) -> Statement:
        counts: list[str] = []
        said: list[object] = []
        for place in places:
            where = range_of(self.sql, place)
            # in the index's own order: without one, PostgreSQL would rather read the table for many rows
            counts.append(
                f"(SELECT COUNT(*) FROM (SELECT id FROM {self.sql.message}{self.sql.use[Index.CLAIM]} "
                f"WHERE {where.sql}{such} ORDER BY {order_of(self.sql, place)} LIMIT %s) AS counted)"
            )
            said += [*where.params, *params, limit]
        return Statement(f"SELECT {', '.join(counts)}", tuple(said))

    def oldest(self, places: Sequence[Place]) -> Statement:
        """Read when the first message in each place became due, or NULL: one row, with a column for each."""
        firsts: list[str] = []
        said: list[object] = []
        for place in places:
            where = range_of(self.sql, place)
            firsts.append(
                f"(SELECT available_at FROM {self.sql.message}{self.sql.use[Index.CLAIM]} WHERE {where.sql} "
                f"ORDER BY {order_of(self.sql, place)} LIMIT 1)"
            )
            said += where.params
        return Statement(f"SELECT {', '.join(firsts)}", tuple(said))
