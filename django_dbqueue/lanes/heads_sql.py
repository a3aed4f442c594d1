"""Who has the tickets of lanes, and who is next: plain reads, which wait for nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement

OWN: Final = "g.width, g.is_paused"
"""What a group may have of its own; NULL where the settings of its queue apply."""


def heads(server: Server, held: Sequence[tuple[int, int]]) -> Statement:
    """Read the tickets of messages (or marks), given as lane and id, and who is next in each of the lanes.

    Lane, ticket, id; the first that a worker has taken along, the first that waits, or NULLs; of the next of them
    the status and whether it is parked (NULL: dead); what the lane has of its own.
    """
    given = server.values(("lane", "held_by"), held)
    return Statement(
        "SELECT h.lane, h.ticket, h.message_id, h.follower, h.first_one, m.status, "
        f"m.available_at = {server.parked}, {OWN}, g.rate, g.lane FROM (SELECT k.lane, k.ticket, k.message_id, "
        f"{first_of(server, '-1 - k.lane')} AS follower, {first_of(server, 'k.lane')} AS first_one FROM {given.sql} "
        f"{server.join_each} {server.ticket} AS k{server.use[Index.PRIMARY]} "
        f"ON k.lane = given.lane AND k.message_id = given.held_by) AS h "
        f"LEFT JOIN {server.message} AS m{server.use[Index.IDS]} ON m.id = COALESCE(h.follower, h.first_one) "
        f"LEFT JOIN {server.group} AS g ON g.lane = h.lane",
        given.params,
    )


def tickets_of(server: Server, lanes: Sequence[int]) -> Statement:
    """Read all tickets of these lanes: the lane, its number, its holder (a mark is negative), the group's own."""
    given = server.values(("lane",), [(lane,) for lane in lanes])
    return Statement(
        f"SELECT k.lane, k.ticket, k.message_id, {OWN}, g.rate, g.lane FROM {given.sql} "
        f"{server.join_each} {server.ticket} AS k{server.use[Index.PRIMARY]} ON k.lane = given.lane "
        f"LEFT JOIN {server.group} AS g ON g.lane = k.lane",
        given.params,
    )


def first_places(server: Server, lines: Sequence[tuple[int, int]]) -> Statement:
    """Read who waits first in lines, given with how many to read of each.

    Line, id; its status, and whether it is parked (NULL: dead).
    """
    return Statement(
        f"SELECT w.lane, w.message_id, m.status, m.available_at = {server.parked} "
        f"FROM {firsts(server, len(lines))} AS w "
        f"LEFT JOIN {server.message} AS m{server.use[Index.IDS]} ON m.id = w.message_id",
        tuple(value for line in lines for value in line),
    )


def firsts(server: Server, lines: int) -> str:
    """Return SQL for who waits first in so many lines; parameters: each line, and how many of it."""
    # Line by line: the servers differ in what they read for a LATERAL, and MariaDB has none
    first = (
        f"SELECT * FROM (SELECT lane, message_id FROM {server.line}{server.use[Index.PRIMARY]} "
        f"WHERE lane = %s ORDER BY lane, message_id LIMIT %s) AS w"
    )
    return f"({' UNION ALL '.join(f'{first}{number}' for number in range(lines))})"


def first_of(server: Server, lane: str, *, of_tickets: bool = False) -> str:
    """Return SQL for who waits first in a lane, or who has the first of its tickets."""
    table, place = (server.ticket, "ticket") if of_tickets else (server.line, "message_id")
    # MySQL reads and sorts the whole lane unless its column is named in the order too
    return (
        f"(SELECT w.message_id FROM {table} AS w{server.use[Index.PRIMARY]} WHERE w.lane = {lane} "
        f"ORDER BY w.lane, w.{place} LIMIT 1)"
    )
