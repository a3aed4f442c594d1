"""What people see of groups: which lanes have something, and how much, without counting a table."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.lanes.heads_sql import first_of
from django_dbqueue.states.table import Stage, condition_of


def firsts(server: Server, lanes: Sequence[int]) -> Statement:
    """Read of each lane who waits first, and who has its first ticket; NULL for nobody."""
    given = server.values(("lane",), [(lane,) for lane in lanes])
    return Statement(
        f"SELECT given.lane, {first_of(server, 'given.lane')}, {first_of(server, 'given.lane', of_tickets=True)} "
        f"FROM {given.sql}",
        given.params,
    )


def sizes(server: Server, lanes: Sequence[int], limit: int) -> Statement:
    """Count who waits in each lane and who has a ticket, and find a dead one among these: one row, three of each.

    No more of a lane is read than the limit.
    """
    columns: list[str] = []
    for _ in lanes:
        line, tickets = _some(server, server.line, "message_id"), _some(server, server.ticket, "ticket")
        dead = (
            f"(SELECT MIN(k.message_id) FROM {tickets} AS k {server.join_each} {server.message} AS m"
            f"{server.use[Index.IDS]} ON m.id = k.message_id WHERE {Stage.DEAD.sql})"
        )
        columns += [f"(SELECT COUNT(*) FROM {each} AS counted)" for each in (line, tickets)] + [dead]
    return Statement(f"SELECT {', '.join(columns)}", tuple(each for lane in lanes for each in (lane, limit) * 3))


def count_before(server: Server, lane: int, message_id: int, limit: int) -> Statement:
    """Count who stands before a message in its line, up to the limit."""
    return Statement(
        f"SELECT COUNT(*) FROM (SELECT message_id FROM {server.line}{server.use[Index.PRIMARY]} "
        "WHERE lane = %s AND message_id < %s ORDER BY lane, message_id LIMIT %s) AS counted",
        (lane, message_id, limit),
    )


def with_ticket(server: Server, places: Sequence[tuple[int, int]]) -> Statement:
    """Read which messages, given as lane and id, have a ticket of their lane."""
    return _found_in(server, server.ticket, places)


def in_line(server: Server, places: Sequence[tuple[int, int]]) -> Statement:
    """Read which messages, given as lane and id, stand in their line."""
    return _found_in(server, server.line, places)


def _found_in(server: Server, table: str, places: Sequence[tuple[int, int]]) -> Statement:
    given = server.values(("lane", "held_by"), places)
    return Statement(
        f"SELECT k.lane, k.message_id FROM {given.sql} {server.join_each} {table} AS k"
        f"{server.use[Index.PRIMARY]} ON k.lane = given.lane AND k.message_id = given.held_by",
        given.params,
    )


def gone_from_line(server: Server, after: tuple[int, int], limit: int) -> Statement:
    """Read the next places in lines, and whether each one's message is not there, or waits no more."""
    behind = server.behind(("lane", "message_id"), after)
    return Statement(
        "SELECT w.lane, w.message_id, m.queue, "
        f"CASE WHEN {Stage.CLAIMED.sql} OR {condition_of(server, 'waiting')} THEN 0 ELSE 1 END "
        f"FROM (SELECT lane, message_id FROM {server.line}{server.use[Index.PRIMARY]} "
        f"WHERE {behind.sql} ORDER BY lane, message_id LIMIT %s) AS w "
        f"LEFT JOIN {server.message} AS m{server.use[Index.IDS]} ON m.id = w.message_id "
        "ORDER BY w.lane, w.message_id",
        (*behind.params, limit),
    )


def _some(server: Server, table: str, column: str) -> str:
    return (
        f"(SELECT message_id FROM {table}{server.use[Index.PRIMARY]} WHERE lane = %s ORDER BY lane, {column} LIMIT %s)"
    )
