"""Which queues have rows, and which statuses and priorities: skip scans over the claim index.

A *range* is a queue, a status and a priority: within it the index is sorted by ``available_at``, so each state is one
contiguous part of it. Finding all ranges costs one index entry each, however many rows they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Subject
from django_dbqueue.databases.statements import Row, Statement, holes
from django_dbqueue.statuses import NEW, STATUSES

SMALL: Final = 10_000
"""An index with this many entries may be read from end to end."""
_MYSQL_COLUMNS: Final = 12
"""Columns of its EXPLAIN, which has ``filtered`` between ``rows`` and ``Extra``; MariaDB's doesn't."""
_NAMES: Final = (
    "WITH RECURSIVE names (queue) AS ("
    "SELECT queue FROM (SELECT queue FROM {message}{index} WHERE queue > '' ORDER BY queue LIMIT 1) AS first "
    "UNION ALL SELECT (SELECT m.queue FROM {message} AS m{index} WHERE m.queue > names.queue ORDER BY m.queue LIMIT 1) "
    "FROM names WHERE names.queue IS NOT NULL)"
)
# In a form that no server turns into a join, for which it would read all rows; nor does the moment lead SQLite to
# skip-scan all queues again for each queue, as it does with statistics that know a single one.
_HAS_WORK: Final = (
    "(SELECT 1 FROM {message} AS m{index} WHERE m.queue = names.queue AND m.status = '{new}' "
    "AND {by_no_index}m.available_at <= {now} LIMIT 1) IS NOT NULL"
)
_HIGHEST: Final = (
    "(SELECT m.priority FROM {message} AS m{index} WHERE m.queue = {of}.queue AND m.status = {of}.status{below} "
    "ORDER BY m.priority DESC LIMIT 1)"
)


class QueuesSQL(Subject):
    """Skip scans by recursion, which reads one entry per answer."""

    def names(self) -> Statement:
        """Read the names of all queues that have rows."""
        return Statement(f"{self._all_names} WHERE queue IS NOT NULL", ())

    def unserved(self, served: Sequence[str]) -> Statement:
        """Read the names of all queues except these that have something to do."""
        others = f"queue NOT IN ({holes(len(served))})"
        work = _HAS_WORK.format(
            message=self.sql.message,
            index=self.sql.use[Index.CLAIM],
            new=NEW,
            by_no_index=self.sql.by_no_index,
            now=self.sql.now,
        )
        return Statement(
            f"{self._all_names} WHERE queue IS NOT NULL AND {others} AND {work}",
            tuple(served),
        )

    def ranges(self) -> Statement:
        """Read all ranges that have rows."""
        statuses = " UNION ALL ".join(f"SELECT '{status}' AS status" for status in STATUSES)
        pairs = f"SELECT queue, status FROM names CROSS JOIN ({statuses}) AS each_one WHERE queue IS NOT NULL"
        first = self._highest("pairs", "")
        lower = self._highest("ranges", " AND m.priority < ranges.priority")
        return Statement(
            f"{self._names}, pairs (queue, status) AS ({pairs}), "
            f"ranges (queue, status, priority) AS (SELECT queue, status, {first} FROM pairs "
            f"UNION ALL SELECT queue, status, {lower} FROM ranges WHERE priority IS NOT NULL) "
            "SELECT queue, status, priority FROM ranges WHERE priority IS NOT NULL",
            (),
        )

    def plan(self, statement: Statement) -> Statement | None:  # noqa: ARG002
        """Ask how the server would run one of the two above; None if it certainly ``skips()``."""
        return None

    @staticmethod
    def skips(plan: Sequence[Row]) -> bool:  # noqa: ARG004
        """Return whether the plan reads one entry per answer, or a table so small that it doesn't matter."""
        return True

    @property
    def _all_names(self) -> str:
        return f"{self._names} SELECT queue FROM names"

    @property
    def _names(self) -> str:
        return _NAMES.format(message=self.sql.message, index=self.sql.use[Index.CLAIM])

    def _highest(self, of: str, below: str) -> str:
        return _HIGHEST.format(message=self.sql.message, index=self.sql.use[Index.CLAIM], of=of, below=below)


class MySQLQueuesSQL(QueuesSQL):
    """Skip scans where the server looks up no range that depends on another row: recursion would read whole queues.

    Both servers do answer DISTINCT over an index prefix by skipping (measured: 3 ms for 1,000 queues, where one
    statement each takes 150 ms and more), provided they expect few answers; with stale statistics they read the index
    from end to end. So the plan is checked first.
    """

    def names(self) -> Statement:
        return Statement(f"SELECT DISTINCT queue FROM {self.sql.message}{self.sql.use[Index.CLAIM]}", ())

    @property
    def _all_names(self) -> str:
        return f"SELECT queue FROM ({self.names().sql}) AS names"

    def ranges(self) -> Statement:
        return Statement(
            f"SELECT DISTINCT queue, status, priority FROM {self.sql.message}{self.sql.use[Index.CLAIM]}", ()
        )

    def plan(self, statement: Statement) -> Statement | None:
        return Statement(f"EXPLAIN FORMAT=TRADITIONAL {statement.sql}", statement.params)

    @staticmethod
    def skips(plan: Sequence[Row]) -> bool:
        row = plan[0]
        rows = row[-3] if len(row) == _MYSQL_COLUMNS else row[-2]
        return "Using index for group-by" in str(row[-1]) or (rows is not None and int(rows) <= SMALL)
