"""The statements of the roll-ups: what ended within a span of time, and hours that are replaced as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import InOrder, Params, Row, Statement, holes
from django_dbqueue.statuses import DONE

MUTEX: Final = "statistics"
"""Held by the writer of roll-ups."""
STATISTIC_COLUMNS: Final = (
    "queue",
    "hour",
    "messages",
    "failures",
    "retries",
    "dead",
    "wait_p50",
    "wait_p95",
    "wait_p99",
    "run_p50",
    "run_p95",
    "run_p99",
)

TOTAL_COLUMNS: Final = ("queue", "messages", "failures", "retries", "dead", "wait", "run")


class Stretch(NamedTuple):
    """From one moment up to, but not including, another; moments in the form the columns take.

    ``after`` is the id of the last row that was read among those of the first moment.
    """

    since: object
    until: object
    after: int | None = None


class StatisticsSQL(Subject):
    """Statements of roll-ups. Hours are replaced from one on as a whole, so a cell without messages disappears."""

    # -- hours, as the pipeline's job writes them ------------------------------------------------------------

    def last_hour(self) -> Statement:
        """Read the last hour that has a roll-up; NULL where none has."""
        return Statement(f"SELECT MAX(hour) FROM {self.sql.statistic} WHERE queue <> ''", ())

    def drop_hours(self, since: object) -> Statement:
        """Delete the roll-ups of this hour and all later ones; of all hours for None.

        The rows covering all queues, which the workers write, stay.
        """
        if since is None:
            return Statement(f"DELETE FROM {self.sql.statistic} WHERE queue <> ''", ())
        return Statement(f"DELETE FROM {self.sql.statistic} WHERE hour >= %s AND queue <> ''", (since,))

    def add_hours(self, rows: Sequence[Row]) -> Statement:
        """Insert roll-ups, rows of STATISTIC_COLUMNS."""
        row = f"({holes(len(STATISTIC_COLUMNS))}, {self.sql.now})"
        return Statement(
            f"INSERT INTO {self.sql.statistic} ({self.sql.columns(STATISTIC_COLUMNS)}, computed_at) "
            f"VALUES {', '.join([row] * len(rows))}",
            tuple(value for each in rows for value in each),
        )

    def lakes_purged_into(self, since: object) -> Statement:
        """Read the lakes that hold rows that left the archive, in batches planned since; any time for None."""
        # What a batch holds was archived, and therefore finished, before the batch was planned
        later, params = ("", ()) if since is None else (" AND planned_at >= %s", (since,))
        return Statement(
            f"SELECT DISTINCT lake FROM {self.sql.batch} WHERE purged_to >= first_id{later} ORDER BY lake", params
        )

    # -- what ended so far, for monitors ----------------------------------------------------------------------

    def totals(self, queues: Sequence[str]) -> Statement:
        """Read what ended in these queues so far, in rows to be added up: the totals, and the minutes since.

        It is one statement, hence one snapshot: a minute is in one of the two tables.
        """
        columns, which = self.sql.columns(TOTAL_COLUMNS), f"queue IN ({holes(len(queues))})"
        begun = self.sql.plus("settled_to", "-60")  # of a minute that is being settled, the fresh count is still shown
        return Statement(
            f"SELECT {columns} FROM {self.sql.total} WHERE {which} UNION ALL "
            f"SELECT {columns} FROM {self.sql.minute} WHERE shown AND {which} "
            f"AND minute > (SELECT {begun} FROM {self.sql.progress} WHERE id = 1)",
            (*queues, *queues),
        )

    # -- what ended, as the workers count it ------------------------------------------------------------------

    def first_ends(self, ranges: Sequence[tuple[str, int]], since: object) -> Statement:
        """Read when the first message of each range (queue, priority) was done, from a moment on: place, moment."""
        each = (
            f"SELECT * FROM (SELECT {{}} AS place, available_at FROM {self.sql.message}{self.sql.use[Index.CLAIM]} "
            f"WHERE queue = %s AND status = '{DONE}' AND priority = %s AND available_at >= %s "
            "ORDER BY available_at LIMIT 1) AS found"
        )
        return Statement(
            " UNION ALL ".join(each.format(place) for place in range(len(ranges))),
            tuple(value for queue, priority in ranges for value in (queue, priority, since)),
        )

    def first_archived_end(self, since: object) -> Statement:
        """Read when the first message of the history ended from a moment on."""
        return Statement(
            f"SELECT finished_at FROM {self.sql.archived} WHERE finished_at >= %s ORDER BY finished_at LIMIT 1",
            (since,),
        )

    def first_event(self, since: object) -> Statement:
        """Read the time of the first event from a moment on."""
        return Statement(f"SELECT at FROM {self.sql.event} WHERE at >= %s ORDER BY at LIMIT 1", (since,))

    def done_within(self, queue: str, priority: int, stretch: Stretch, limit: int) -> Statement:
        """Read messages of a range that were done within a stretch, in index order.

        Rows: when it was done, id, due_at, claimed_at, reads.
        """
        within, params = self._within("available_at", stretch)
        return InOrder(
            f"SELECT available_at, id, due_at, claimed_at, read_count, error IS NULL "
            f"FROM {self.sql.message}{self.sql.use[Index.CLAIM]} WHERE queue = %s AND status = '{DONE}' "
            f"AND priority = %s AND {within} ORDER BY available_at, id LIMIT %s",
            (queue, priority, *params, limit),
        )

    def archived_within(self, stretch: Stretch, limit: int) -> Statement:
        """Read messages of the history that ended within a stretch: finished_at, row, due_at, …, queue, outcome, id."""
        within, params = self._within("finished_at", stretch)
        return Statement(
            "SELECT finished_at, id, due_at, claimed_at, read_count, outcome, queue, message_id "
            f"FROM {self.sql.archived} WHERE {within} ORDER BY finished_at, id LIMIT %s",
            (*params, limit),
        )

    def events_within(self, stretch: Stretch, limit: int) -> Statement:
        """Read events of a stretch, of every kind: at, row, kind, queue, message, reads, claimed_at."""
        within, params = self._within("at", stretch)
        return Statement(
            "SELECT at, id, kind, queue, message_id, read_count, claimed_at "
            f"FROM {self.sql.event} WHERE {within} ORDER BY at, id LIMIT %s",
            (*params, limit),
        )

    def dues(self, ids: Sequence[int]) -> Statement:
        """Read when messages were due: id, due_at."""
        return Statement(
            f"SELECT id, due_at FROM {self.sql.message}{self.sql.use[Index.IDS]} WHERE id IN ({holes(len(ids))})",
            tuple(ids),
        )

    def archived_dues(self, ids: Sequence[int]) -> Statement:
        """Read the same of messages in the history."""
        return Statement(
            f"SELECT message_id, due_at FROM {self.sql.archived} WHERE message_id IN ({holes(len(ids))})",
            tuple(ids),
        )

    @staticmethod
    def _within(column: str, stretch: Stretch) -> tuple[str, Params]:
        if stretch.after is None:
            return f"{column} >= %s AND {column} < %s", (stretch.since, stretch.until)
        return f"{column} = %s AND id > %s", (stretch.since, stretch.after)
