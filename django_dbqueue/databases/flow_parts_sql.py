"""A flow as a whole: its parts, and what is left of it, in reads whose costs are bounded."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Statement
from django_dbqueue.statuses import DONE, NEW


class FlowPartsSQL(Subject):
    """Statements about all messages of a flow, named by the ranges of their ids."""

    def parts_of_children(self, flow: int) -> Statement:
        """Read which messages of a flow have spawned others: parent, first and last id."""
        return Statement(
            f"SELECT parent, first_id, last_id FROM {self.sql.flow_part} WHERE flow = %s AND parent IS NOT NULL",
            (flow,),
        )

    def total(self, flow: int) -> Statement:
        """Read how many messages were put into a flow."""
        return Statement(f"SELECT SUM(messages) FROM {self.sql.flow_part} WHERE flow = %s", (flow,))

    def old(self, after: int, age: float, limit: int) -> Statement:
        """Read the next flows that were sent at least ``age`` seconds ago."""
        return Statement(
            f"SELECT id FROM {self.sql.flow} WHERE id > %s AND created_at <= {self.sql.plus(self.sql.now, '%s')} "
            "ORDER BY id LIMIT %s",
            (after, -age, limit),
        )

    def forget(self, flow: int) -> tuple[Statement, Statement]:
        """Delete a flow, none of whose messages is left."""
        return (
            Statement(f"DELETE FROM {self.sql.flow_part} WHERE flow = %s", (flow,)),
            Statement(f"DELETE FROM {self.sql.flow} WHERE id = %s", (flow,)),
        )

    def unfinished(self, flow: int, ranges: Sequence[tuple[int, int]], limit: int) -> Statement:
        """Read some of a flow's messages in these ranges of ids that are not done."""
        return self._some(flow, ranges, f" AND m.status <> '{DONE}' LIMIT %s", limit)

    def last_parked(self, flow: int, ranges: Sequence[tuple[int, int]], limit: int) -> Statement:
        """Read the last of a flow's messages in these ranges of ids that are parked."""
        parked = f"m.status = '{NEW}' AND m.available_at = {self.sql.parked}"
        return self._some(flow, ranges, f" AND {parked} ORDER BY m.id DESC LIMIT %s", limit)

    def any_of(self, flow: int, ranges: Sequence[tuple[int, int]]) -> Statement:
        """Read a row if a message of a flow in these ranges of ids is left."""
        return self._some(flow, ranges, " LIMIT %s", 1)

    def _some(self, flow: int, ranges: Sequence[tuple[int, int]], such: str, limit: int) -> Statement:
        members = self._members(flow, ranges)
        return Statement(f"SELECT m.id {members.sql}{such}", (*members.params, limit))

    def _members(self, flow: int, ranges: Sequence[tuple[int, int]]) -> Statement:
        """Return where the messages of a flow in these ranges of ids come from, named m."""
        # Ranges, and no join with the parts: PostgreSQL would read the whole table for it
        within = " OR ".join(["(m.id BETWEEN %s AND %s)"] * len(ranges))
        return Statement(
            f"FROM {self.sql.message} AS m{self.sql.use[Index.IDS]} WHERE ({within}) AND m.flow = %s",
            (*(edge for pair in ranges for edge in pair), flow),
        )

    def not_done(self, ids: Sequence[int]) -> Statement:
        """Return the fence of those of these messages that are not done."""
        named = self.sql.id_in(ids)
        return Statement(f"{named.sql} AND status <> '{DONE}'", named.params)

    def parts(self, flow: int, limit: int) -> Statement:
        """Read the first parts of a flow: first and last id, and how many messages."""
        return Statement(
            f"SELECT first_id, last_id, messages FROM {self.sql.flow_part} WHERE flow = %s "
            "ORDER BY flow, first_id LIMIT %s",
            (flow, limit),
        )

    def standing(self, flow: int, ranges: Sequence[tuple[int, int]]) -> Statement:
        """Count what is left of a flow in these ranges of ids, by queue and state, with the lowest id of each."""
        dead, waits = f"m.status = '{NEW}' AND m.available_at IS NULL", f"m.available_at = {self.sql.parked}"
        state = (
            f"CASE WHEN m.status = '{DONE}' THEN 'done' WHEN {dead} THEN 'dead' "
            f"WHEN m.status = '{NEW}' AND {waits} THEN 'waiting' WHEN m.status = '{NEW}' THEN 'ready' "
            "ELSE 'running' END"
        )
        members = self._members(flow, ranges)
        return Statement(
            f"SELECT m.queue, {state} AS state, COUNT(*), MIN(m.id) {members.sql} GROUP BY 1, 2", members.params
        )
