"""The rates of groups: when the next may start by the schedule, and which starts were reserved.

Moments are whole numbers of microseconds since 1970, by the database's clock: SQLite's own moments have milliseconds,
which would add up to another rate.
"""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Statement, holes
from django_dbqueue.statuses import NEW


class RatesSQL(Subject):
    """Statements about the starts of groups."""

    def make_groups(self, ids: Sequence[int]) -> Statement:
        """Make the rows of these messages' groups, unless they are there."""
        named = self.sql.id_in(ids)
        return Statement(
            f"INSERT INTO {self.sql.group} (lane, queue, name) SELECT lane, queue, group_name "
            f"FROM {self.sql.message} AS m{self.sql.use[Index.IDS]} WHERE {named.sql}"
            f"{self.sql.or_nothing(self.sql.group, 'lane')}",
            named.params,
        )

    def step(self, paced: Sequence[tuple[int, int, int]]) -> Statement:
        """Schedule the next start of groups, given as lane, interval, and how far ahead there can be any."""
        given = self.sql.values(("of_lane", "step", "ahead"), paced)
        return self.sql.update_each(self.sql.group, given, f"scheduled = {self._next_start}", "t.lane = given.of_lane")

    @property
    def _next_start(self) -> str:
        # Further ahead than there are tickets: it was scheduled by a slower rate, or has been dropped
        now, last = self.sql.clock_us, "COALESCE(t.scheduled, 0)"
        return (
            f"CASE WHEN {last} > {now} + given.ahead OR {last} + given.step < {now} THEN {now} "
            f"ELSE {last} + given.step END"
        )

    def gate(self, lanes: Sequence[int]) -> Statement:
        """Lock the rows of groups, and read of each its lane, its own rate, its last start and the clock's time."""
        return Statement(
            f"SELECT lane, rate, started, {self.sql.clock_us} FROM {self.sql.group}{self.sql.use[Index.PRIMARY]} "
            f"WHERE lane IN ({holes(len(lanes))}) ORDER BY lane{self.sql.lock_row}",
            tuple(lanes),
        )

    def start(self, starts: Sequence[tuple[int, int]]) -> Statement:
        """Reserve starts, given as lane and moment, in rows that the same transaction has locked."""
        given = self.sql.values(("of_lane", "moment"), starts)
        return self.sql.update_each(self.sql.group, given, "started = given.moment", "t.lane = given.of_lane")

    def rated(self, queue: str, limit: int) -> Statement:
        """Read lanes of a queue whose groups have rates of their own."""
        return Statement(
            f"SELECT lane FROM {self.sql.group} WHERE queue = %s AND rate IS NOT NULL LIMIT %s", (queue, limit)
        )

    def hurry(self, lane: int) -> Statement:
        """Make due what only the rate of its group holds back: its start asks for the rate anyway."""
        return Statement(
            f"UPDATE {self.sql.message}{self.sql.use[Index.IDS]} SET available_at = {self.sql.now} "
            f"WHERE id IN (SELECT k.message_id FROM {self.sql.ticket} AS k WHERE k.lane = %s) AND status = '{NEW}' "
            f"AND available_at > {self.sql.now} AND due_at <= {self.sql.now}",
            (lane,),
        )


class MySQLRatesSQL(RatesSQL):
    """Joins where SQL has a subquery."""

    def hurry(self, lane: int) -> Statement:
        # MariaDB reads, and locks, the whole table for an UPDATE of ids that a subquery gives
        return Statement(
            f"UPDATE {self.sql.ticket} AS k STRAIGHT_JOIN {self.sql.message} AS m{self.sql.use[Index.IDS]} "
            f"ON m.id = k.message_id SET m.available_at = {self.sql.now} WHERE k.lane = %s AND m.status = '{NEW}' "
            f"AND m.available_at > {self.sql.now} AND m.due_at <= {self.sql.now}",
            (lane,),
        )
