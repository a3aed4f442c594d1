"""Flows: an edge for each message that another one waits for, beside the hot table.

Each message that waits has one more row, its *gate*: an edge from nobody, whose upstream is 0. It is open when no other
edge of the message is left. Who deletes the gate lets the message run, so that happens once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.flow_parts_sql import FlowPartsSQL
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.statements import Statement, holes
from django_dbqueue.statuses import DONE, NEW

WHEN_DONE: Final = "done"
"""The edge goes when its upstream is done, or dropped."""
WHEN_DEAD: Final = "dead"
"""The first upstream that dies lets the message run; if all end well, it is not needed."""
WHEN_FINISHED: Final = "finished"
"""The edge goes when its upstream is done, dropped or dead."""
FIRED: Final = "fired"
"""Of a gate: an upstream has died for which the message waited."""
WORTH_RANGES: Final = 4
"""Ids in a range, on average, for which it is worth one."""


class FlowsSQL(FlowPartsSQL):
    """Statements about edges."""

    # -- the sender ---------------------------------------------------------------------------------------

    def add_part(self, flow: int, first: int, last: int, count: int, parent: int | None) -> Statement:
        """Record a range of ids, and how many messages of the flow are in it."""
        return Statement(
            f"INSERT INTO {self.sql.flow_part} (flow, first_id, last_id, messages, parent) VALUES (%s, %s, %s, %s, %s)",
            (flow, first, last, count, parent),
        )

    def add_gates(self, flow: int, first: int, last: int, when: str) -> Statement:
        """Write the gates of messages that wait."""
        return Statement(
            f"INSERT INTO {self.sql.edge} (downstream, upstream, needs) SELECT id, 0, %s FROM {self.sql.message}"
            f"{self.sql.use[Index.IDS]} WHERE id BETWEEN %s AND %s AND flow = %s",
            (when, first, last, flow),
        )

    def add_edges(self, flow: int, later: tuple[int, int], earlier: tuple[int, int], when: str) -> Statement:
        """Let each message of a range of ids wait for each of another one."""
        return Statement(
            f"INSERT INTO {self.sql.edge} (downstream, upstream, needs) SELECT d.id, u.id, %s "
            f"FROM {self.sql.message} AS d{self.sql.use[Index.IDS]} CROSS JOIN {self.sql.message} AS u"
            f"{self.sql.use[Index.IDS]} WHERE d.id BETWEEN %s AND %s AND d.flow = %s "
            "AND u.id BETWEEN %s AND %s AND u.flow = %s",
            (when, *later, flow, *earlier, flow),
        )

    def add_children(self, parent: int, flow: int, first: int, last: int) -> Statement:
        """Let those who wait for a message wait for its children too."""
        return Statement(
            f"INSERT INTO {self.sql.edge} (downstream, upstream, needs) SELECT e.downstream, u.id, e.needs "
            f"FROM {self.sql.edge} AS e CROSS JOIN {self.sql.message} AS u{self.sql.use[Index.IDS]} "
            "WHERE e.upstream = %s AND u.id BETWEEN %s AND %s AND u.flow = %s",
            (parent, first, last, flow),
        )

    # -- the end of a message -----------------------------------------------------------------------------

    def waiters_for(self, ids: Sequence[int]) -> Statement:
        """Read who waits for these messages, each once: all of it is in the index."""
        return self._read_waiters("downstream", ids)

    def needs_of_waiters_for(self, ids: Sequence[int]) -> Statement:
        """Read who waits for these messages, and for what: downstream, needs."""
        return self._read_waiters("downstream, needs", ids)

    def _read_waiters(self, columns: str, ids: Sequence[int]) -> Statement:
        where = self._of("upstream", ids)
        return Statement(
            f"SELECT DISTINCT {columns} FROM {self.sql.edge}{self.sql.use[Index.EDGE_UPSTREAM]} WHERE {where.sql}",
            where.params,
        )

    def forget_edges_from(self, ids: Sequence[int]) -> Statement:
        """Delete all edges from these messages."""
        return self._delete("upstream", ids)

    def forget_finished_edges_from(self, ids: Sequence[int]) -> Statement:
        """Delete the edges from these messages that any end satisfies."""
        return self._delete("upstream", ids, f" AND needs = '{WHEN_FINISHED}'")

    def _of(self, column: str, ids: Sequence[int]) -> Statement:
        """Name messages by ranges if they are in few, which is half the work for a server."""
        ranges = _ranges(ids)
        if ranges is None:
            return Statement(f"{column} IN ({holes(len(ids))})", tuple(ids))
        one = f"{column} BETWEEN %s AND %s"
        return Statement(f"({' OR '.join([one] * len(ranges))})", tuple(edge for pair in ranges for edge in pair))

    def fire(self, downstream: int) -> tuple[Statement, Statement]:
        """Let a message run that waited for a death."""
        return (
            Statement(
                f"UPDATE {self.sql.edge} SET needs = '{FIRED}' WHERE downstream = %s AND upstream = 0", (downstream,)
            ),
            Statement(f"DELETE FROM {self.sql.edge} WHERE downstream = %s AND upstream > 0", (downstream,)),
        )

    # -- the look -----------------------------------------------------------------------------------------

    def open_gates(self, ids: Sequence[int]) -> Statement:
        """Read which of these messages have a gate that is open. A plain read: it waits for nobody."""
        # The highest, since the lowest end first and leave entries that are marked as deleted; both columns are named
        # in the order, or else MySQL reads and sorts all of them
        last = (
            f"(SELECT e.upstream FROM {self.sql.edge} AS e{self.sql.use[Index.PRIMARY]} "
            "WHERE e.downstream = g.downstream ORDER BY e.downstream DESC, e.upstream DESC LIMIT 1)"
        )
        # By its own key, or else MariaDB 11.8 reads every gate there is: upstream = 0 is an index of theirs, too
        return Statement(
            f"SELECT g.downstream FROM {self.sql.edge} AS g{self.sql.use[Index.PRIMARY]} "
            f"WHERE g.downstream IN ({holes(len(ids))}) AND g.upstream = 0 AND {last} = 0",
            tuple(ids),
        )

    def lock_gates(self, ids: Sequence[int]) -> Statement:
        """Lock the gates of messages, and read what each needs."""
        return Statement(
            f"SELECT downstream, needs FROM {self.sql.edge}{self.sql.use[Index.PRIMARY]} "
            f"WHERE downstream IN ({holes(len(ids))}) AND upstream = 0 ORDER BY downstream"
            f"{self.sql.lock_row}",
            tuple(ids),
        )

    def forget_gates(self, ids: Sequence[int]) -> Statement:
        """Delete the gates of messages, which the same transaction has locked."""
        return self._delete("downstream", ids, " AND upstream = 0")

    def waiting(self, ids: Sequence[int]) -> Statement:
        """Return the fence of those of these messages that are parked."""
        named = self.sql.id_in(ids)
        return Statement(f"{named.sql} AND status = '{NEW}' AND available_at = {self.sql.parked}", named.params)

    def queues_of(self, where: Statement) -> Statement:
        """Lock the messages of a fence, and read their ids, queues and lanes."""
        return Statement(
            f"SELECT id, queue, lane FROM {self.sql.message}{self.sql.use[Index.IDS]} WHERE {where.sql} "
            f"ORDER BY id{self.sql.lock_row}",
            where.params,
        )

    # -- the keeper ---------------------------------------------------------------------------------------

    def gates_behind(self, downstream: int, limit: int) -> Statement:
        """Read the next messages that have a gate."""
        return Statement(
            f"SELECT downstream FROM {self.sql.edge} WHERE upstream = 0 AND downstream > %s "
            "ORDER BY upstream, downstream LIMIT %s",
            (downstream, limit),
        )

    def edges_behind(self, upstream: int, downstream: int, limit: int) -> Statement:
        """Read the next edges, and whether the upstream is 'done', 'dead' or 'lives'; gates are none."""
        dead = f"m.status = '{NEW}' AND m.available_at IS NULL"
        standing = f"CASE WHEN m.id IS NULL OR m.status = '{DONE}' THEN 'done' WHEN {dead} THEN 'dead' ELSE 'lives' END"
        behind = self.sql.behind(("upstream", "downstream"), (max(upstream, 1), downstream))
        return Statement(
            f"SELECT e.upstream, e.downstream, e.needs, {standing} FROM (SELECT upstream, downstream, needs "
            f"FROM {self.sql.edge} WHERE {behind.sql} ORDER BY upstream, downstream LIMIT %s) AS e "
            f"LEFT JOIN {self.sql.message} AS m ON m.id = e.upstream ORDER BY e.upstream, e.downstream",
            (*behind.params, limit),
        )

    # -- people -------------------------------------------------------------------------------------------

    def has_gate(self, downstream: int) -> Statement:
        """Read a row if a message waits for others of its flow."""
        return Statement(f"SELECT needs FROM {self.sql.edge} WHERE downstream = %s AND upstream = 0", (downstream,))

    def ahead_of(self, downstream: int, limit: int) -> Statement:
        """Read for whom a message waits: id, status, whether it is dead, of what queue; the dead first."""
        dead = f"CASE WHEN m.status = '{NEW}' AND m.available_at IS NULL THEN 1 ELSE 0 END"
        return Statement(
            f"SELECT e.upstream, m.status, {dead} AS is_dead, e.needs FROM (SELECT upstream, needs FROM {self.sql.edge}"
            f"{self.sql.use[Index.PRIMARY]} WHERE downstream = %s AND upstream > 0 ORDER BY downstream, upstream "
            f"LIMIT %s) AS e LEFT JOIN {self.sql.message} AS m ON m.id = e.upstream ORDER BY is_dead DESC, e.upstream",
            (downstream, limit),
        )

    def _delete(self, column: str, ids: Sequence[int], such: str = "") -> Statement:
        index = Index.EDGE_UPSTREAM if column == "upstream" else Index.PRIMARY
        if column == "upstream" and len(_ranges(ids) or ()) == 1:  # no plan is cheaper than to read it, and no lookups
            where = self._of(column, ids)
            return Statement(f"{self.sql.delete_from(self.sql.edge, index)} WHERE {where.sql}{such}", where.params)
        named = [(each,) for each in ids]
        return self.sql.delete_each(self.sql.edge, (column,), named, such=Statement(such, ()), index=index)


def _ranges(ids: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return the ranges of consecutive ids; None if they are short."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(ids):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges if len(ranges) * WORTH_RANGES <= len(ids) else None
