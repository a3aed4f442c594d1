"""One message and its lane, for stored routines: what ``lanes_sql`` says for many, by plain conditions.

Not by a join with a table of one row: in routines on MySQL 9.7, DELETE and UPDATE by such a join now and then find
nothing, though the row is there, and the very next try of the same statement finds it.
"""

from __future__ import annotations

from collections.abc import Mapping

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.lanes.heads_sql import OWN, first_of
from django_dbqueue.states.table import Stage


def enter_one(server: Server, lane: int, message_id: int) -> Statement:
    """Put a message into its line, unless it stands there already."""
    return Statement(
        f"INSERT INTO {server.line} (lane, message_id) VALUES (%s, %s)"
        f"{server.or_nothing(server.line, 'lane, message_id')}",
        (lane, message_id),
    )


def leave_one(server: Server, lane: int, message_id: int) -> Statement:
    """Take a message out of its line."""
    return _delete_one(server, server.line, {"lane": lane, "message_id": message_id})


def draw_one(server: Server, lane: int, ticket: int, mark: int) -> Statement:
    """Take a ticket under a mark in place of a message, unless somebody has it."""
    return Statement(
        f"INSERT INTO {server.ticket} (lane, ticket, message_id) VALUES (%s, %s, %s)"
        f"{server.or_nothing(server.ticket, 'lane, ticket')}",
        (lane, ticket, mark),
    )


def head_of(server: Server, lane: int, held_by: int) -> Statement:
    """Read the ticket of a message (or mark), and who is next, and in which line, as ``heads`` does."""
    return Statement(
        "SELECT h.lane, h.ticket, h.message_id, COALESCE(h.follower, h.first_one), "
        "CASE WHEN h.follower IS NULL THEN h.lane ELSE -1 - h.lane END, "
        f"m.status, m.available_at = {server.parked}, {OWN} FROM (SELECT k.lane, k.ticket, k.message_id, "
        f"{first_of(server, '-1 - k.lane')} AS follower, {first_of(server, 'k.lane')} AS first_one "
        f"FROM {server.ticket} AS k{server.use[Index.PRIMARY]} WHERE k.lane = %s AND k.message_id = %s) AS h "
        f"LEFT JOIN {server.message} AS m{server.use[Index.IDS]} ON m.id = COALESCE(h.follower, h.first_one) "
        f"LEFT JOIN {server.group} AS g ON g.lane = h.lane",
        (lane, held_by),
    )


def lock_if_dead(server: Server, message_id: int) -> Statement:
    """Lock a message if it is dead; else the routine's NOT FOUND reports that it isn't."""
    return Statement(
        f"SELECT id INTO _first FROM {server.message}{server.use[Index.IDS]} "
        f"WHERE id = %s AND {Stage.DEAD.sql}{server.lock_row}",
        (message_id,),
    )


def lowest_free(server: Server, lane: int, least: int) -> Statement:
    """Read the lowest ticket of a lane, from a number on, that nobody has."""
    held = f"SELECT 1 FROM {server.ticket} AS o WHERE o.lane = %s AND o.ticket ="
    behind = (
        f"SELECT MIN(k.ticket) + 1 FROM {server.ticket} AS k WHERE k.lane = %s AND k.ticket >= %s "
        f"AND NOT EXISTS ({held} k.ticket + 1)"
    )
    return Statement(
        f"SELECT CASE WHEN EXISTS ({held} %s) THEN ({behind}) ELSE %s END",
        (lane, least, lane, least, lane, least),
    )


def pass_one_on(server: Server, lane: int, ticket: int, held_by: int, next_one: int) -> Statement:
    """Give a ticket to another message, if it still is whose it says."""
    return Statement(
        f"UPDATE {server.ticket}{server.use[Index.PRIMARY]} SET message_id = %s "
        "WHERE lane = %s AND ticket = %s AND message_id = %s",
        (next_one, lane, ticket, held_by),
    )


def free_one(server: Server, lane: int, ticket: int, held_by: int) -> Statement:
    """Free a ticket by its number, if it is this message's (or mark's): no other of the lane is locked."""
    return _delete_one(server, server.ticket, {"lane": lane, "ticket": ticket, "message_id": held_by})


def free_any(server: Server, lane: int, held_by: int) -> Statement:
    """Free a message's ticket, whichever it is."""
    return _delete_one(server, server.ticket, {"lane": lane, "message_id": held_by})


def _delete_one(server: Server, table: str, named: Mapping[str, int]) -> Statement:
    same = " AND ".join(f"{name} = %s" for name in named)
    return Statement(f"{server.delete_from(table)} WHERE {same}", tuple(named.values()))
