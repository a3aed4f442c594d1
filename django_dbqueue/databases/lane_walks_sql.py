"""Reading the lanes in order, as the keeper, the doctor and the console do, and in steps whose costs are bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Statement
from django_dbqueue.statuses import DONE, NEW, RUNNING

ENTRIES: Final = 250
"""Places that MySQL and MariaDB read for some of the next lanes: of a deep one no more."""


class LaneWalksSQL(Subject):
    """Statements that go from lane to lane."""

    def are_in_use(self) -> Statement:
        """Read whether anybody is in a line or has a ticket, whether anybody waits in a flow, if one exists."""
        return Statement(
            f"SELECT CASE WHEN EXISTS (SELECT 1 FROM {self.sql.line}) OR EXISTS (SELECT 1 FROM {self.sql.ticket}) "
            f"THEN 1 ELSE 0 END, CASE WHEN EXISTS (SELECT 1 FROM {self.sql.edge}) THEN 1 ELSE 0 END, "
            f"CASE WHEN EXISTS (SELECT 1 FROM {self.sql.flow}) THEN 1 ELSE 0 END",
            (),
        )

    def next_lane(self, after: int) -> Statement:
        """Read the next lane with somebody in its line, and who is the first there."""
        return Statement(
            f"SELECT lane, message_id FROM {self.sql.line}{self.sql.use[Index.PRIMARY]} WHERE lane > %s "
            "ORDER BY lane, message_id LIMIT 1",
            (after,),
        )

    def queues_of(self, ids: Sequence[int]) -> Statement:
        """Read the queues of messages."""
        named = self.sql.id_in(ids)
        return Statement(
            f"SELECT id, queue FROM {self.sql.message}{self.sql.use[Index.IDS]} WHERE {named.sql}", named.params
        )

    def next_lanes(self, table: str, after: int, until: int, limit: int) -> Statement:
        """Read some of the next lanes that a line or a ticket names, in their order; none only if there are no more.

        By a skip scan, one index entry for each lane, whatever stands in it.
        """
        step = f"SELECT MIN(l.lane) FROM {table} AS l WHERE l.lane > {{}} AND l.lane <= %s"
        return Statement(
            f"WITH RECURSIVE walk (lane, place) AS (SELECT ({step.format('%s')}), 1 "
            f"UNION ALL SELECT ({step.format('walk.lane')}), place + 1 FROM walk "
            "WHERE lane IS NOT NULL AND place < %s) SELECT lane FROM walk WHERE lane IS NOT NULL",
            (after, until, until, limit),
        )

    def tickets_behind(self, lane: int, ticket: int, limit: int) -> Statement:
        """Read the next tickets, and what became of the messages that have them: lane, ticket, id, queue, standing.

        The standing is 'lives', 'dead', or 'ended': done, or not there any more.
        """
        ended, dead = f"m.id IS NULL OR m.status = '{DONE}'", f"m.status = '{NEW}' AND m.available_at IS NULL"
        standing = f"CASE WHEN {ended} THEN 'ended' WHEN {dead} THEN 'dead' ELSE 'lives' END"
        behind = self.sql.behind(("lane", "ticket"), (lane, ticket))
        return Statement(
            f"SELECT k.lane, k.ticket, k.message_id, m.queue, {standing} FROM (SELECT lane, ticket, message_id "
            f"FROM {self.sql.ticket}{self.sql.use[Index.PRIMARY]} WHERE {behind.sql} "
            f"ORDER BY lane, ticket LIMIT %s) AS k LEFT JOIN {self.sql.message} AS m ON m.id = k.message_id "
            "ORDER BY k.lane, k.ticket",
            (*behind.params, limit),
        )

    def followers_behind(self, lane: int, message_id: int, limit: int) -> Statement:
        """Read the next of those taken along: line, id, and whether it is 'run', 'new' or 'ended'."""
        new = f"m.status = '{NEW}' AND m.available_at IS NOT NULL"
        behind = self.sql.behind(("lane", "message_id"), (lane, message_id))
        return Statement(
            f"SELECT w.lane, w.message_id, CASE WHEN m.status = '{RUNNING}' THEN 'run' WHEN {new} THEN 'new' "
            f"ELSE 'ended' END FROM (SELECT lane, message_id FROM {self.sql.line}{self.sql.use[Index.PRIMARY]} "
            f"WHERE lane < 0 AND {behind.sql} ORDER BY lane, message_id LIMIT %s) "
            f"AS w LEFT JOIN {self.sql.message} AS m ON m.id = w.message_id ORDER BY w.lane, w.message_id",
            (*behind.params, limit),
        )


class MySQLLaneWalksSQL(LaneWalksSQL):
    """Reads places, in which it finds the lanes."""

    def next_lanes(self, table: str, after: int, until: int, limit: int) -> Statement:
        # By recursion the servers read the whole table for each lane (measured at 30,000 rows: 15 million for 500
        # lanes), and whether they skip for DISTINCT depends on their statistics
        return Statement(
            f"SELECT DISTINCT lane FROM (SELECT lane FROM {table}{self.sql.use[Index.PRIMARY]} "
            f"WHERE lane > %s AND lane <= %s ORDER BY lane LIMIT {ENTRIES}) AS places ORDER BY lane LIMIT %s",
            (after, until, limit),
        )
