"""Flows: an edge for each message that another one waits for, beside the hot table.

Each message that waits has one more row, its *gate*: an edge from nobody, whose upstream is 0. It is open when no other
edge of the message is left. Who deletes the gate lets the message run, so that happens once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement, holes
from django_dbqueue.states.table import Stage, condition_of

WHEN_DONE: Final = "done"
"""The edge goes when its upstream is done, or dropped."""
WHEN_DEAD: Final = "dead"
"""The first upstream that dies lets the message run; if all end well, it is not needed."""
WHEN_FINISHED: Final = "finished"
"""The edge goes when its upstream is done, dropped or dead."""
AFTER: Final = "dbqueue.after"
"""The header with the ids of those that a message waited for, as ranges."""
FIRED: Final = "fired"
"""Of a gate: an upstream has died for which the message waited."""
WORTH_RANGES: Final = 4
"""Ids in a range, on average, for which it is worth one."""


def add_part(server: Server, flow: int, first: int, last: int, count: int, parent: int | None) -> Statement:
    """Record a range of ids, and how many messages of the flow are in it."""
    return Statement(
        f"INSERT INTO {server.flow_part} (flow, first_id, last_id, messages, parent) VALUES (%s, %s, %s, %s, %s)",
        (flow, first, last, count, parent),
    )


def add_gates(server: Server, flow: int, first: int, last: int, when: str) -> Statement:
    """Write the gates of messages that wait."""
    return Statement(
        f"INSERT INTO {server.edge} (downstream, upstream, needs) SELECT id, 0, %s FROM {server.message}"
        f"{server.use[Index.IDS]} WHERE id BETWEEN %s AND %s AND flow = %s",
        (when, first, last, flow),
    )


def add_edges(server: Server, flow: int, later: tuple[int, int], earlier: tuple[int, int], when: str) -> Statement:
    """Let each message of a range of ids wait for each of another one."""
    return Statement(
        f"INSERT INTO {server.edge} (downstream, upstream, needs) SELECT d.id, u.id, %s "
        f"FROM {server.message} AS d{server.use[Index.IDS]} CROSS JOIN {server.message} AS u"
        f"{server.use[Index.IDS]} WHERE d.id BETWEEN %s AND %s AND d.flow = %s "
        "AND u.id BETWEEN %s AND %s AND u.flow = %s",
        (when, *later, flow, *earlier, flow),
    )


def add_children(server: Server, parent: int, flow: int, first: int, last: int) -> Statement:
    """Let those who wait for a message wait for its children too."""
    return Statement(
        f"INSERT INTO {server.edge} (downstream, upstream, needs) SELECT e.downstream, u.id, e.needs "
        f"FROM {server.edge} AS e CROSS JOIN {server.message} AS u{server.use[Index.IDS]} "
        "WHERE e.upstream = %s AND u.id BETWEEN %s AND %s AND u.flow = %s",
        (parent, first, last, flow),
    )


def waiters_for(server: Server, ids: Sequence[int]) -> Statement:
    """Read who waits for these messages, each once: all of it is in the index."""
    return _read_waiters(server, "downstream", ids)


def needs_of_waiters_for(server: Server, ids: Sequence[int]) -> Statement:
    """Read who waits for these messages, and for what: downstream, needs."""
    return _read_waiters(server, "downstream, needs", ids)


def _read_waiters(server: Server, columns: str, ids: Sequence[int]) -> Statement:
    where = _of("upstream", ids)
    return Statement(
        f"SELECT DISTINCT {columns} FROM {server.edge}{server.use[Index.EDGE_UPSTREAM]} WHERE {where.sql}",
        where.params,
    )


def forget_edges_from(server: Server, ids: Sequence[int]) -> Statement:
    """Delete all edges from these messages."""
    return _delete(server, "upstream", ids)


def forget_finished_edges_from(server: Server, ids: Sequence[int]) -> Statement:
    """Delete the edges from these messages that any end satisfies."""
    return _delete(server, "upstream", ids, f" AND needs = '{WHEN_FINISHED}'")


def forget_edges_to(server: Server, ids: Sequence[int]) -> Statement:
    """Delete the gates of messages, and all edges to them: they wait for nobody any more."""
    return _delete(server, "downstream", ids)


def _of(column: str, ids: Sequence[int]) -> Statement:
    """Name messages by ranges if they are in few, which is half the work for a server."""
    ranges = _ranges(ids)
    if ranges is None:
        return Statement(f"{column} IN ({holes(len(ids))})", tuple(ids))
    one = f"{column} BETWEEN %s AND %s"
    return Statement(f"({' OR '.join([one] * len(ranges))})", tuple(edge for pair in ranges for edge in pair))


def fire(server: Server, downstream: int) -> tuple[Statement, Statement]:
    """Let a message run that waited for a death."""
    return (
        Statement(f"UPDATE {server.edge} SET needs = '{FIRED}' WHERE downstream = %s AND upstream = 0", (downstream,)),
        Statement(f"DELETE FROM {server.edge} WHERE downstream = %s AND upstream > 0", (downstream,)),
    )


def open_gates(server: Server, ids: Sequence[int]) -> Statement:
    """Read which of these messages have a gate that is open. A plain read: it waits for nobody."""
    # The highest, since the lowest end first and leave entries that are marked as deleted; both columns are named
    # in the order, or else MySQL reads and sorts all of them
    last = (
        f"(SELECT e.upstream FROM {server.edge} AS e{server.use[Index.PRIMARY]} "
        "WHERE e.downstream = g.downstream ORDER BY e.downstream DESC, e.upstream DESC LIMIT 1)"
    )
    # By its own key, or else MariaDB 11.8 reads every gate there is: upstream = 0 is an index of theirs, too
    return Statement(
        f"SELECT g.downstream FROM {server.edge} AS g{server.use[Index.PRIMARY]} "
        f"WHERE g.downstream IN ({holes(len(ids))}) AND g.upstream = 0 AND {last} = 0",
        tuple(ids),
    )


def lock_gates(server: Server, ids: Sequence[int]) -> Statement:
    """Lock the gates of messages, and read what each needs."""
    return Statement(
        f"SELECT downstream, needs FROM {server.edge}{server.use[Index.PRIMARY]} "
        f"WHERE downstream IN ({holes(len(ids))}) AND upstream = 0 ORDER BY downstream"
        f"{server.lock_row}",
        tuple(ids),
    )


def forget_gates(server: Server, ids: Sequence[int]) -> Statement:
    """Delete the gates of messages, which the same transaction has locked."""
    return _delete(server, "downstream", ids, " AND upstream = 0")


def waiting(server: Server, ids: Sequence[int]) -> Statement:
    """Return the fence of those of these messages that are parked."""
    named = server.id_in(ids)
    return Statement(f"{named.sql} AND {condition_of(server, 'waiting')}", named.params)


def queues_of(server: Server, where: Statement) -> Statement:
    """Lock the messages of a fence, and read their ids, queues and lanes."""
    return Statement(
        f"SELECT id, queue, lane FROM {server.message}{server.use[Index.IDS]} WHERE {where.sql} "
        f"ORDER BY id{server.lock_row}",
        where.params,
    )


def gates_behind(server: Server, downstream: int, limit: int) -> Statement:
    """Read the next messages that have a gate."""
    return Statement(
        f"SELECT downstream FROM {server.edge}{server.use[Index.EDGE_UPSTREAM]} "
        "WHERE upstream = 0 AND downstream > %s ORDER BY upstream, downstream LIMIT %s",
        (downstream, limit),
    )


def edges_behind(server: Server, upstream: int, downstream: int, limit: int) -> Statement:
    """Read the next edges, and whether the upstream is 'done', 'dead' or 'lives'; gates are none."""
    done = f"m.id IS NULL OR {Stage.FINISHED.sql}"
    fate = f"CASE WHEN {done} THEN 'done' WHEN {Stage.DEAD.sql} THEN 'dead' ELSE 'lives' END"
    behind = server.behind(("upstream", "downstream"), (max(upstream, 1), downstream))
    return Statement(
        f"SELECT e.upstream, e.downstream, e.needs, {fate} FROM (SELECT upstream, downstream, needs "
        f"FROM {server.edge}{server.use[Index.EDGE_UPSTREAM]} WHERE {behind.sql} "
        "ORDER BY upstream, downstream LIMIT %s) AS e "
        f"LEFT JOIN {server.message} AS m{server.use[Index.IDS]} ON m.id = e.upstream "
        "ORDER BY e.upstream, e.downstream",
        (*behind.params, limit),
    )


def has_gate(server: Server, downstream: int, *, lock: bool = False) -> Statement:
    """Read a row if a message waits for others of its flow; ``lock``: as it is now, whatever was seen before."""
    lock_row = server.lock_row if lock else ""
    return Statement(f"SELECT needs FROM {server.edge} WHERE downstream = %s AND upstream = 0{lock_row}", (downstream,))


def waited_for(server: Server, downstream: int, limit: int) -> Statement:
    """Read for whom a message waits: id, status, whether it is dead, of what queue; the dead first."""
    dead = f"CASE WHEN {Stage.DEAD.sql} THEN 1 ELSE 0 END"
    return Statement(
        f"SELECT e.upstream, m.status, {dead} AS is_dead, e.needs FROM (SELECT upstream, needs FROM {server.edge}"
        f"{server.use[Index.PRIMARY]} WHERE downstream = %s AND upstream > 0 ORDER BY downstream, upstream "
        f"LIMIT %s) AS e LEFT JOIN {server.message} AS m{server.use[Index.IDS]} ON m.id = e.upstream "
        "ORDER BY is_dead DESC, e.upstream",
        (downstream, limit),
    )


def _delete(server: Server, column: str, ids: Sequence[int], such: str = "") -> Statement:
    index = Index.EDGE_UPSTREAM if column == "upstream" else Index.PRIMARY
    if column == "upstream" and len(_ranges(ids) or ()) == 1:  # no plan is cheaper than to read it, and no lookups
        where = _of(column, ids)
        return Statement(f"{server.delete_from(server.edge, index)} WHERE {where.sql}{such}", where.params)
    named = [(each,) for each in ids]
    return server.delete_each(server.edge, (column,), named, such=Statement(such, ()), index=index)


def _ranges(ids: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return the ranges of consecutive ids; None if they are short."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(ids):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges if len(ranges) * WORTH_RANGES <= len(ids) else None
