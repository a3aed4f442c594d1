"""The rates of groups: when the next may start by the schedule, and which starts were reserved.

Moments are whole numbers of microseconds since 1970, by the database's clock: SQLite's own moments have milliseconds,
which would add up to another rate.
"""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement, holes
from django_dbqueue.states.table import condition_of


def make_groups(server: Server, ids: Sequence[int]) -> Statement:
    """Make the rows of these messages' groups, unless they are there."""
    named = server.id_in(ids)
    return Statement(
        f"INSERT INTO {server.group} (lane, queue, name) SELECT lane, queue, group_name "
        f"FROM {server.message} AS m{server.use[Index.IDS]} WHERE {named.sql}"
        f"{server.or_nothing(server.group, 'lane')}",
        named.params,
    )


def step(server: Server, paced: Sequence[tuple[int, int, int]]) -> Statement:
    """Schedule the next start of groups, given as lane, interval, and how far ahead there can be any."""
    given = server.values(("of_lane", "step", "ahead"), paced)
    return server.update_each(server.group, given, f"scheduled = {_next_start(server)}", "t.lane = given.of_lane")


def _next_start(server: Server) -> str:
    # Further ahead than there are tickets: it was scheduled by a slower rate, or has been dropped
    now, last = server.clock_us, "COALESCE(t.scheduled, 0)"
    return (
        f"CASE WHEN {last} > {now} + given.ahead OR {last} + given.step < {now} THEN {now} ELSE {last} + given.step END"
    )


def gate(server: Server, lanes: Sequence[int]) -> Statement:
    """Lock the rows of groups, and read of each its lane, its own rate, its last start and the clock's time."""
    return Statement(
        f"SELECT lane, rate, started, {server.clock_us} FROM {server.group}{server.use[Index.PRIMARY]} "
        f"WHERE lane IN ({holes(len(lanes))}) ORDER BY lane{server.lock_row}",
        tuple(lanes),
    )


def start(server: Server, starts: Sequence[tuple[int, int]]) -> Statement:
    """Reserve starts, given as lane and moment, in rows that the same transaction has locked."""
    given = server.values(("of_lane", "moment"), starts)
    return server.update_each(server.group, given, "started = given.moment", "t.lane = given.of_lane")


def rated(server: Server, queue: str, limit: int) -> Statement:
    """Read lanes of a queue whose groups have rates of their own."""
    return Statement(f"SELECT lane FROM {server.group} WHERE queue = %s AND rate IS NOT NULL LIMIT %s", (queue, limit))


def hurry(server: Server, lane: int, ids: Sequence[int]) -> Statement:
    """Make due those of these messages that only the rate of this lane's group holds back: their starts ask for it.

    Not those that are parked: they wait for an event, or have lost their tickets meanwhile.
    """
    named = server.id_in(ids)
    return Statement(
        f"UPDATE {server.message}{server.use[Index.IDS]} SET available_at = {server.now} "
        f"WHERE {named.sql} AND lane = %s AND {condition_of(server, 'delayed')} AND due_at <= {server.now}",
        (*named.params, lane),
    )
