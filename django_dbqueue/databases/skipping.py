"""Which queues have rows, and which statuses and priorities: skip scans over the claim index.

A *range* is a queue, a status and a priority: within it the index is sorted by ``available_at``, so that each state is
one stretch of it. Finding all ranges costs one index entry for each, however many rows they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django_dbqueue.databases.words import Statement, Words
from django_dbqueue.statuses import NEW, STATUSES

SMALL: Final = 10_000
"""An index of so many entries may be read from end to end."""
_MYSQL_COLUMNS: Final = 12
"""Of its EXPLAIN, which has ``filtered`` between ``rows`` and ``Extra``; MariaDB's has not."""
_NAMES: Final = (
    "WITH RECURSIVE names (queue) AS ("
    "SELECT queue FROM (SELECT queue FROM {message}{index} WHERE queue > '' ORDER BY queue LIMIT 1) AS first "
    "UNION ALL SELECT (SELECT m.queue FROM {message} AS m{index} WHERE m.queue > names.queue ORDER BY m.queue LIMIT 1) "
    "FROM names WHERE names.queue IS NOT NULL)"
)
# In a form that no server turns into a join, for which it would read all rows; and the moment is no reason for SQLite
# to skip over the queues for each queue anew, as it does by statistics that know a single one.
_HAS_WORK: Final = (
    "(SELECT 1 FROM {message} AS m{index} WHERE m.queue = names.queue AND m.status = '{new}' "
    "AND {by_no_index}m.available_at <= {now} LIMIT 1) IS NOT NULL"
)
_HIGHEST: Final = (
    "(SELECT m.priority FROM {message} AS m{index} WHERE m.queue = {of}.queue AND m.status = {of}.status{below} "
    "ORDER BY m.priority DESC LIMIT 1)"
)


class Skipping(Words):
    """By recursion, which reads one entry for each answer."""

    def queues(self) -> Statement:
        """Read the names of all queues that have rows."""
        return Statement(f"{self._all_names} WHERE queue IS NOT NULL", ())

    def unserved(self, served: Sequence[str]) -> Statement:
        """Read the names of all queues besides these that have something to do."""
        others = f"queue NOT IN ({self.holes(len(served))})"
        work = _HAS_WORK.format(
            message=self.message, index=self.use_claim_index, new=NEW, by_no_index=self.by_no_index, now=self.now
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
        """Ask how the server would run one of the two above; None where there is no doubt that it ``skips()``."""
        return None

    @staticmethod
    def skips(plan: Sequence[tuple[Any, ...]]) -> bool:  # noqa: ARG004
        """Tell whether the plan reads one entry for each answer, or a table so small that it doesn't matter."""
        return True

    @property
    def _all_names(self) -> str:
        return f"{self._names} SELECT queue FROM names"

    @property
    def _names(self) -> str:
        return _NAMES.format(message=self.message, index=self.use_claim_index)

    def _highest(self, of: str, below: str) -> str:
        return _HIGHEST.format(message=self.message, index=self.use_claim_index, of=of, below=below)


class MySQLSkipping(Skipping):
    """Neither server looks up a range that depends on another row: by recursion both read whole queues.

    DISTINCT over a prefix of an index they do answer by skipping (measured: 3 ms for 1,000 queues, where a statement
    for each takes 150 ms and more), if they believe that there are few answers; who believes old statistics reads the
    index from end to end. So the plan is asked first.
    """

    def queues(self) -> Statement:
        return Statement(f"SELECT DISTINCT queue FROM {self.message}{self.use_claim_index}", ())

    @property
    def _all_names(self) -> str:
        return f"SELECT queue FROM ({self.queues().sql}) AS names"

    def ranges(self) -> Statement:
        return Statement(f"SELECT DISTINCT queue, status, priority FROM {self.message}{self.use_claim_index}", ())

    def plan(self, statement: Statement) -> Statement | None:
        return Statement(f"EXPLAIN FORMAT=TRADITIONAL {statement.sql}", statement.params)

    @staticmethod
    def skips(plan: Sequence[tuple[Any, ...]]) -> bool:
        row = plan[0]
        rows = row[-3] if len(row) == _MYSQL_COLUMNS else row[-2]
        return "Using index for group-by" in str(row[-1]) or (rows is not None and int(rows) <= SMALL)
