"""The lanes of groups: who waits in a line, who has a ticket, and how one message makes way for the next.

Two side tables, so that messages without a group pay nothing. All of their statements look rows up by the primary key,
one by one, in the order of the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.lane_walks_sql import LaneWalksSQL, MySQLLaneWalksSQL
from django_dbqueue.databases.statements import Statement
from django_dbqueue.statuses import NEW

OWN: Final = "g.width, g.is_paused"
"""What a group may have of its own; NULL where the settings of its queue apply."""


class LanesSQL(LaneWalksSQL):
    """Statements about lines and tickets."""

    # -- lines --------------------------------------------------------------------------------------------

    def enter(self, waiting: Sequence[tuple[int, int]]) -> Statement:
        """Put messages, given as lane and id, into their lines, unless they stand there already."""
        given = self.sql.values(("lane", "message_id"), waiting)
        return Statement(
            f"INSERT INTO {self.sql.line} (lane, message_id) SELECT given.lane, given.message_id FROM {given.sql} "
            f"WHERE 1 = 1{self.sql.or_nothing(self.sql.line, 'lane, message_id')}",
            given.params,
        )

    def enter_range(self, first: int, count: int) -> Statement:
        """Put the rows of one INSERT into their lines, where the server tells only the first id (MySQL)."""
        return Statement(
            f"INSERT INTO {self.sql.line} (lane, message_id) SELECT lane, id FROM {self.sql.message} AS m"
            f"{self.sql.use[Index.IDS]} WHERE id BETWEEN %s AND %s + %s * @@auto_increment_increment "
            f"AND lane IS NOT NULL AND status = '{NEW}' AND available_at = {self.sql.parked}"
            f"{self.sql.or_nothing(self.sql.line, 'lane, message_id')}",
            (first, first, count - 1),
        )

    def enter_after(self, above: int) -> Statement:
        """Put this transaction's own messages into their lines: with a higher id than any was when it began.

        Nobody else's waits and stands in no line. At READ COMMITTED, it waits for nobody.
        """
        return Statement(
            f"INSERT INTO {self.sql.line} (lane, message_id) SELECT m.lane, m.id FROM {self.sql.message} AS m"
            f"{self.sql.use[Index.IDS]} WHERE m.id > %s AND m.lane IS NOT NULL AND m.status = '{NEW}' "
            f"AND m.available_at = {self.sql.parked} AND m.claim_token IS NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {self.sql.line} AS l"
            f"{self.sql.use[Index.PRIMARY]} WHERE l.lane = m.lane AND l.message_id = m.id)",
            (above,),
        )

    def leave(self, waiting: Sequence[tuple[int, int]]) -> Statement:
        """Take messages, given as lane and id, out of their lines."""
        return self.sql.delete_each(self.sql.line, ("lane", "message_id"), waiting)

    # -- those that a worker takes along ------------------------------------------------------------------

    def behind(self, lanes: Sequence[int], limit: int) -> Statement:
        """Read who waits first in each of these lines, up to ``limit`` each.

        Not of a group that is paused, or that has a rate of its own.
        """
        # Line by line: the servers differ in what they read for a LATERAL, and MariaDB has none
        first = (
            f"SELECT * FROM (SELECT lane, message_id FROM {self.sql.line}{self.sql.use[Index.PRIMARY]} "
            f"WHERE lane = %s ORDER BY lane, message_id LIMIT %s) AS w"
        )
        each = " UNION ALL ".join(f"{first}{number}" for number in range(len(lanes)))
        return Statement(
            f"SELECT w.lane, w.message_id FROM ({each}) AS w LEFT JOIN {self.sql.group} AS g ON g.lane = w.lane "
            "WHERE g.lane IS NULL OR (NOT g.is_paused AND g.rate IS NULL)",
            tuple(value for lane in lanes for value in (lane, limit)),
        )

    def follow(self, taken: Sequence[tuple[int, int]]) -> Statement:
        """Let messages, given as lane and id, stand among those taken along, and no more in their lines."""
        given = self.sql.values(("from_lane", "taken"), taken)
        same = "t.lane = given.from_lane AND t.message_id = given.taken"
        return self.sql.update_each(self.sql.line, given, "lane = -1 - given.from_lane", same)

    # -- tickets ------------------------------------------------------------------------------------------

    def standing(self, lanes: Sequence[int]) -> Statement:
        """Read of each lane: who waits first, a ticket that is out (one row each, or NULL), and what it has of its own.

        A plain read: it waits for nobody.
        """
        given = self.sql.values(("lane",), [(lane,) for lane in lanes])
        return Statement(
            f"SELECT given.lane, {self.first_of('given.lane')}, k.ticket, {OWN} FROM {given.sql} "
            f"LEFT JOIN {self.sql.group} AS g ON g.lane = given.lane "
            f"LEFT JOIN {self.sql.ticket} AS k ON k.lane = given.lane",
            given.params,
        )

    def draw(self, tickets: Sequence[tuple[int, int]], mark: int) -> Statement:
        """Take tickets, given as lane and number, under a mark in place of a message, unless somebody has them."""
        given = self.sql.values(("lane", "ticket"), tickets)
        return Statement(
            f"INSERT INTO {self.sql.ticket} (lane, ticket, message_id) SELECT given.lane, given.ticket, %s "
            f"FROM {given.sql} WHERE 1 = 1{self.sql.or_nothing(self.sql.ticket, 'lane, ticket')}",
            (mark, *given.params),
        )

    def heads(self, held: Sequence[tuple[int, int]]) -> Statement:
        """Read the tickets of messages (or marks), given as lane and id, and who is next in each of the lanes.

        Lane, ticket, id; the first that a worker has taken along, the first that waits, or NULLs; of the next of them
        the status and whether it is parked (NULL: dead); what the lane has of its own.
        """
        given = self.sql.values(("lane", "held_by"), held)
        return Statement(
            "SELECT h.lane, h.ticket, h.message_id, h.follower, h.first_one, m.status, "
            f"m.available_at = {self.sql.parked}, {OWN}, g.rate, g.lane FROM (SELECT k.lane, k.ticket, k.message_id, "
            f"{self.first_of('-1 - k.lane')} AS follower, {self.first_of('k.lane')} AS first_one FROM {given.sql} "
            f"{self.sql.join_each} {self.sql.ticket} AS k{self.sql.use[Index.PRIMARY]} "
            f"ON k.lane = given.lane AND k.message_id = given.held_by) AS h "
            f"LEFT JOIN {self.sql.message} AS m ON m.id = COALESCE(h.follower, h.first_one) "
            f"LEFT JOIN {self.sql.group} AS g ON g.lane = h.lane",
            given.params,
        )

    def first_of(self, lane: str) -> str:
        """Return SQL for who waits first in a lane."""
        # MySQL reads and sorts the whole lane unless its column is named in the order too
        return (
            f"(SELECT w.message_id FROM {self.sql.line} AS w{self.sql.use[Index.PRIMARY]} WHERE w.lane = {lane} "
            "ORDER BY w.lane, w.message_id LIMIT 1)"
        )

    def pass_on(self, tickets: Sequence[tuple[int, int, int, int]]) -> Statement:
        """Give tickets (lane, number, whose, to whom) to others, as far as they still are whose it says."""
        given = self.sql.values(("of_lane", "number", "held_by", "next_one"), tickets)
        same = "t.lane = given.of_lane AND t.ticket = given.number AND t.message_id = given.held_by"
        return self.sql.update_each(self.sql.ticket, given, "message_id = given.next_one", same)

    def free(self, held: Sequence[tuple[int, int]]) -> Statement:
        """Free the tickets of messages (or marks), given as lane and id."""
        return self.sql.delete_each(self.sql.ticket, ("lane", "message_id"), held)

    # -- messages -----------------------------------------------------------------------------------------

    def let_run(self, ids: Sequence[int], *, paced: bool = False) -> Statement:
        """Make parked messages due: now, or when their senders wanted, or (``paced``) when their groups' turn is."""
        named, due = self.sql.id_in(ids), self.sql.later_of("due_at", self.sql.now)
        if paced:
            ahead = (
                f"SELECT (g.scheduled - {self.sql.clock_us}) / 1000000.0 FROM {self.sql.group} AS g "
                f"WHERE g.lane = {self.sql.message}.lane"
            )
            due = self.sql.later_of(due, self.sql.plus(self.sql.now, f"({ahead})"))
        return Statement(
            f"UPDATE {self.sql.message}{self.sql.use[Index.IDS]} SET available_at = {due} "
            f"WHERE {named.sql} AND status = '{NEW}' AND available_at = {self.sql.parked}",
            named.params,
        )

    def park(self, ids: Sequence[int]) -> Statement:
        """Let messages that are new, and not dead, wait for a ticket."""
        named = self.sql.id_in(ids)
        return Statement(
            f"UPDATE {self.sql.message}{self.sql.use[Index.IDS]} SET available_at = {self.sql.parked} "
            f"WHERE {named.sql} AND status = '{NEW}' AND available_at IS NOT NULL",
            named.params,
        )

    def ready_in(self, lane: int) -> Statement:
        """Lock the messages that have a ticket of this lane and are not taken, and read their ids.

        Not those whose handlers wait for an event: they keep their tickets.
        """
        return Statement(
            f"SELECT m.id FROM {self.sql.message} AS m{self.sql.use[Index.IDS]} "
            f"WHERE {self._has_ticket('m.id', f'SELECT k.message_id FROM {self.sql.ticket} AS k WHERE k.lane = %s')} "
            f"AND m.status = '{NEW}' AND m.available_at < {self.sql.parked} ORDER BY m.id{self.sql.lock_row}",
            (lane,),
        )

    def places(self, where: Statement) -> Statement:
        """Lock the rows of a fence that are in a lane, and read their places."""
        return Statement(
            f"SELECT lane, id, queue FROM {self.sql.message}{self.sql.use[Index.IDS]} "
            f"WHERE {where.sql} AND lane IS NOT NULL ORDER BY id{self.sql.lock_row}",
            where.params,
        )

    def _has_ticket(self, column: str, tickets: str) -> str:
        return f"{column} IN ({tickets})"


class MySQLLanesSQL(MySQLLaneWalksSQL, LanesSQL):
    """Walks the lanes in its own way."""


class PostgreSQLLanesSQL(LanesSQL):
    """Joins where SQLite needs the rows' own ids."""

    def _has_ticket(self, column: str, tickets: str) -> str:
        # An array is looked up whatever the server believes; for IN it reads a small table in full
        return f"{column} = ANY(ARRAY({tickets}))"
