"""How a job's messages are written by the thousand: staged invisibly and published at once, or inserted directly.

A run of a job stages under its number, and each try of a task under a number of its own, so whatever retries or
speculation leave behind is never published.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.inserts_sql import LIVE_KEY, InsertsSQL, one_row
from django_dbqueue.databases.statements import Copy, Row, Statement
from django_dbqueue.statuses import NEW

STAGED: Final = (
    "queue",
    "key",
    "key_hash",
    "body",
    "content_type",
    "headers",
    "priority",
    "max_reads",
    "lease_seconds",
    "lane",
    "group_name",
    "delay_seconds",
    "due_at",
)
"""The columns of a row to be written, in this order."""


class StagingSQL(InsertsSQL):
    """Statements to stage, publish and drop, and the INSERT that bypasses staging."""

    stages_faster = False
    """Whether to stage rows and publish them at once takes less time than an INSERT of their values."""

    @property
    def _or_nothing(self) -> str:
        return self.sql.or_nothing(self.sql.message, LIVE_KEY)

    def stage(self, job: str, run: int, attempt: int, rows: Sequence[Row], *, place: int) -> Statement | Copy:
        """Insert rows of STAGED from this place on; columns that none of them sets are left out."""
        said = zip(("run", "attempt", "job"), ([each] * len(rows) for each in (run, attempt, job)), strict=True)
        names, row, params = one_row(dict(chain(said, zip(STAGED, zip(*rows, strict=True), strict=True))), defaults={})
        values = [f"({number:d}, {row})" for number in range(place, place + len(rows))]
        return Statement(
            f"INSERT INTO {self.sql.staged} (place, {self.sql.columns(names)}) VALUES {', '.join(values)}",
            tuple(chain.from_iterable(params)),
        )

    def insert_directly(self, rows: Sequence[Row]) -> Statement:
        """Insert rows of STAGED into the queue; one whose key is taken is left out, and not counted.

        All of them are in lanes, and wait, or none is. What none of them sets is left to the table's defaults.
        """
        *said, delays, moments = zip(*rows, strict=True)
        columns: dict[str, Sequence[object]] = dict(zip(STAGED[: len(said)], said, strict=True))
        columns["live"] = [None if each is None else 1 for each in columns["key_hash"]]
        return self.insert_values(columns, delays, moments, self._or_nothing if any(columns["live"]) else "")

    def name_job(self, name: str, run: int, created: int) -> Statement:
        """Write the name of a job that is being published, unless it exists; waits for a concurrent writer."""
        return Statement(
            f"INSERT INTO {self.sql.published} (name, run, created, ignored, published_at) "
            f"VALUES (%s, %s, %s, 0, {self.sql.now}){self.sql.or_nothing(self.sql.published, 'name')}",
            (name, run, created),
        )

    def published_job(self, name: str) -> Statement:
        """Read the run that published a job, and how many messages it created and ignored."""
        return Statement(f"SELECT run, created, ignored FROM {self.sql.published} WHERE name = %s", (name,))

    def count_published(self, name: str, created: int, ignored: int) -> Statement:
        """Record the outcome of a publication."""
        return Statement(
            f"UPDATE {self.sql.published} SET created = %s, ignored = %s, published_at = {self.sql.now} "
            "WHERE name = %s",
            (created, ignored, name),
        )

    def count_staged(self, run: int) -> Statement:
        """Count the rows of each attempt of a run."""
        return Statement(
            f"SELECT attempt, COUNT(*) FROM {self.sql.staged}{self.sql.use[Index.PRIMARY]} "
            "WHERE run = %s GROUP BY attempt",
            (run,),
        )

    def publish(self, run: int, attempt: int, places: range, *, has_groups: bool = False) -> Statement:
        """Copy an attempt's rows of these places into the queue, in order; those whose keys are taken don't count.

        ``has_groups``: some may be in lanes, and wait.
        """
        later, delayed = self.sql.later_of("due_at", self.sql.now), self.sql.plus(self.sql.now, "delay_seconds")
        due = f"CASE WHEN due_at IS NOT NULL THEN {later} WHEN delay_seconds > 0 THEN {delayed} ELSE {self.sql.now} END"
        left = ("delay_seconds", "due_at") if has_groups else ("delay_seconds", "due_at", "lane", "group_name")
        names = tuple(name for name in STAGED if name not in left)
        available = f"CASE WHEN lane IS NULL THEN {due} ELSE {self.sql.parked} END" if has_groups else due
        times = ("available_at", "due_at", "created_at", "live", "status", "read_count", "crashes")
        return Statement(
            f"INSERT INTO {self.sql.message} ({self.sql.columns((*names, *times))}) "
            f"SELECT {self.sql.columns(names)}, {available}, {due}, {self.sql.now}, "
            f"CASE WHEN key_hash IS NULL THEN NULL ELSE 1 END, '{NEW}', 0, 0 "
            f"FROM {self.sql.staged}{self.sql.use[Index.PRIMARY]} "
            f"WHERE run = %s AND attempt = %s AND place >= %s AND place < %s ORDER BY place{self._or_nothing}",
            (run, attempt, places.start, places.stop),
        )

    def staged_queues(self, run: int) -> Statement:
        """Read the queues that a run stages for."""
        return Statement(
            f"SELECT DISTINCT queue FROM {self.sql.staged}{self.sql.use[Index.PRIMARY]} WHERE run = %s", (run,)
        )

    def staged_lanes(self, run: int) -> Statement:
        """Read the lanes that a run stages for, each with its queue."""
        return Statement(
            f"SELECT DISTINCT lane, queue FROM {self.sql.staged}{self.sql.use[Index.PRIMARY]} "
            "WHERE run = %s AND lane IS NOT NULL",
            (run,),
        )

    def drop_staged(self, run: int, attempt: int | None = None) -> Statement:
        """Delete what a run has staged, or one attempt of it."""
        if attempt is None:
            return Statement(f"{self.sql.delete_from(self.sql.staged)} WHERE run = %s", (run,))
        return Statement(f"{self.sql.delete_from(self.sql.staged)} WHERE run = %s AND attempt = %s", (run, attempt))

    def drop_staged_from(self, run: int, attempt: int, place: int) -> Statement:
        """Delete what an attempt has staged from a place on."""
        return Statement(
            f"{self.sql.delete_from(self.sql.staged)} WHERE run = %s AND attempt = %s AND place >= %s",
            (run, attempt, place),
        )

    def next_attempt(self, run: int, attempt: int) -> Statement:
        """Find the first attempt after this one, in index order: one step of a walk over all runs."""
        behind = self.sql.behind(("run", "attempt"), (run, attempt))
        return Statement(
            f"SELECT run, attempt FROM {self.sql.staged}{self.sql.use[Index.PRIMARY]} WHERE {behind.sql} "
            "ORDER BY run, attempt LIMIT 1",
            behind.params,
        )

    def is_forsaken(self, run: int, attempt: int, seconds: float) -> Statement:
        """Read whether an attempt's newest row was staged ``seconds`` ago or earlier."""
        return Statement(
            f"SELECT staged_at <= {self.sql.plus(self.sql.now, '%s')} FROM {self.sql.staged}"
            f"{self.sql.use[Index.PRIMARY]} WHERE run = %s AND attempt = %s ORDER BY place DESC LIMIT 1",
            (-seconds, run, attempt),
        )


class PostgreSQLStagingSQL(StagingSQL):
    """Stages by COPY, which takes a seventh of the time of an INSERT of the same values."""

    stages_faster = True

    def stage(self, job: str, run: int, attempt: int, rows: Sequence[Row], *, place: int) -> Copy:
        """Copy rows of STAGED from this place on; columns that none of them sets are left out."""
        used = [column for column in range(len(STAGED)) if any(row[column] is not None for row in rows)]
        names = self.sql.columns(("job", "run", "attempt", "place", *(STAGED[column] for column in used)))
        values = itemgetter(*used)
        said = [(job, run, attempt, number, *values(row)) for number, row in enumerate(rows, place)]
        return Copy(f"COPY {self.sql.staged} ({names}) FROM STDIN", said)
