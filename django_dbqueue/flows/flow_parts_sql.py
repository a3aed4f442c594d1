"""A flow as a whole: its parts, and what is left of it, in reads whose costs are bounded."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.states.table import NOT_DONE, Stage, condition_of


def parts_of_children(server: Server, flow: int) -> Statement:
    """Read which messages of a flow have spawned others: parent, first and last id."""
    return Statement(
        f"SELECT parent, first_id, last_id FROM {server.flow_part} WHERE flow = %s AND parent IS NOT NULL",
        (flow,),
    )


def total(server: Server, flow: int) -> Statement:
    """Read how many messages were put into a flow."""
    return Statement(f"SELECT SUM(messages) FROM {server.flow_part} WHERE flow = %s", (flow,))


def old(server: Server, after: int, age: float, limit: int) -> Statement:
    """Read the next flows that were sent at least ``age`` seconds ago."""
    return Statement(
        f"SELECT id FROM {server.flow} WHERE id > %s AND created_at <= {server.plus(server.now, '%s')} "
        "ORDER BY id LIMIT %s",
        (after, -age, limit),
    )


def forget(server: Server, flow: int) -> tuple[Statement, Statement]:
    """Delete a flow, none of whose messages is left."""
    return (
        Statement(f"DELETE FROM {server.flow_part} WHERE flow = %s", (flow,)),
        Statement(f"DELETE FROM {server.flow} WHERE id = %s", (flow,)),
    )


def unfinished(server: Server, flow: int, ranges: Sequence[tuple[int, int]], limit: int) -> Statement:
    """Read some of a flow's messages in these ranges of ids that are not done."""
    return _some(server, flow, ranges, f" AND {NOT_DONE} LIMIT %s", limit)


def last_parked(server: Server, flow: int, ranges: Sequence[tuple[int, int]], limit: int) -> Statement:
    """Read the last of a flow's messages in these ranges of ids that are parked."""
    return _some(server, flow, ranges, f" AND {condition_of(server, 'waiting')} ORDER BY m.id DESC LIMIT %s", limit)


def any_of(server: Server, flow: int, ranges: Sequence[tuple[int, int]]) -> Statement:
    """Read a row if a message of a flow in these ranges of ids is left."""
    return _some(server, flow, ranges, " LIMIT %s", 1)


def _some(server: Server, flow: int, ranges: Sequence[tuple[int, int]], such: str, limit: int) -> Statement:
    members = _members(server, flow, ranges)
    return Statement(f"SELECT m.id {members.sql}{such}", (*members.params, limit))


def _members(server: Server, flow: int, ranges: Sequence[tuple[int, int]]) -> Statement:
    """Return where the messages of a flow in these ranges of ids come from, named m."""
    if server.joins_lists and len(ranges) > 1:  # for ORs, the whole table would be read
        given = server.values(("low", "high"), ranges)
        return Statement(
            f"FROM {given.sql} {server.join_each} {server.message} AS m "
            "WHERE m.id BETWEEN given.low AND given.high AND m.flow = %s",
            (*given.params, flow),
        )
    # Ranges, and no join with the parts: PostgreSQL would read the whole table for it
    within = " OR ".join(["(m.id BETWEEN %s AND %s)"] * len(ranges))
    return Statement(
        f"FROM {server.message} AS m{server.use[Index.IDS]} WHERE ({within}) AND m.flow = %s",
        (*(edge for pair in ranges for edge in pair), flow),
    )


def not_done(server: Server, ids: Sequence[int]) -> Statement:
    """Return the fence of those of these messages that are not done."""
    named = server.id_in(ids)
    return Statement(f"{named.sql} AND {NOT_DONE}", named.params)


def stages_of(server: Server, flow: int, ranges: Sequence[tuple[int, int]]) -> Statement:
    """Count what is left of a flow in these ranges of ids, by queue and state, with the lowest id of each."""
    state = (
        f"CASE WHEN {Stage.FINISHED.sql} THEN 'done' WHEN {Stage.DEAD.sql} THEN 'dead' "
        f"WHEN {Stage.CLAIMED.sql} THEN 'running' WHEN {condition_of(server, 'waiting')} THEN 'waiting' "
        "ELSE 'ready' END"
    )
    members = _members(server, flow, ranges)
    return Statement(
        f"SELECT m.queue, {state} AS state, COUNT(*), MIN(m.id) {members.sql} GROUP BY 1, 2", members.params
    )


def parts(server: Server, flow: int, limit: int) -> Statement:
    """Read the first parts of a flow: first and last id, and how many messages."""
    return Statement(
        f"SELECT first_id, last_id, messages FROM {server.flow_part} WHERE flow = %s ORDER BY flow, first_id LIMIT %s",
        (flow, limit),
    )
