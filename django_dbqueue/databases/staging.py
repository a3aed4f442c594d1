"""How the messages of a job come in by the thousand: staged where nobody sees them and published at once, or directly.

A run of a job stages under its number, and each try of a task under a number of its own, so that whatever retries or
speculation leave behind is never published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django_dbqueue.databases.words import Statement, Words
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
    "delay_seconds",
    "due_at",
)
"""What a row to be written says, in this order."""
_KEY_HASH, _DELAY, _DUE = STAGED.index("key_hash"), STAGED.index("delay_seconds"), STAGED.index("due_at")


class Staging(Words):
    """Stage, publish, drop; and the INSERT that stages nothing."""

    staged = "django_dbqueue_stagedmessage"
    published = "django_dbqueue_publishedjob"
    use_staged_run = ""
    """Keeps a run's rows from being found by a scan of everybody's."""
    delete_staged = "DELETE FROM django_dbqueue_stagedmessage"
    """The same for a DELETE."""

    def stage(self, job: str, run: int, attempt: int, rows: Sequence[tuple[Any, ...]], *, place: int) -> Statement:
        """Insert rows of STAGED from this place on; columns that none of them says are left out."""
        names, values = _said(rows)
        whose, said = f"({run:d}, {attempt:d}, ", f", %s, {self.now}, {self.holes(len(names))})"
        return Statement(
            f"INSERT INTO {self.staged} (run, attempt, place, job, staged_at, {self.columns(names)}) "
            f"VALUES {', '.join([f'{whose}{number:d}{said}' for number in range(place, place + len(rows))])}",
            tuple([value for each in values for value in (job, *each)]),
        )

    def insert_directly(self, rows: Sequence[tuple[Any, ...]]) -> Statement:
        """Insert rows of STAGED into the queue; one whose key is taken is left out, and not counted."""
        dues = [self.due_from_now(row[_DELAY], row[_DUE]) for row in rows]
        names, values = _said([(*row[:_DELAY], None, None) for row in rows])
        keyed = "key_hash" in names
        columns = (*names, *(("live",) if keyed else ()), "available_at", "due_at", "created_at", "status")
        columns = (*columns, "read_count", "crashes")
        place, holes = names.index("key_hash") if keyed else 0, self.holes(len(names))
        parts, params = [], []
        for said, (due, due_params) in zip(values, dues, strict=True):
            live = ("1, " if said[place] is not None else "NULL, ") if keyed else ""
            parts.append(f"({holes}, {live}{due}, {due}, {self.now}, '{NEW}', 0, 0)")
            params += [*said, *due_params, *due_params]
        return Statement(
            f"INSERT INTO {self.message} ({self.columns(columns)}) VALUES {', '.join(parts)}"
            f"{self.keep_standing if keyed else ''}",
            tuple(params),
        )

    def name_job(self, name: str, run: int, created: int) -> Statement:
        """Write the name of a job that is being published, unless it is there; waits for another who writes it."""
        return Statement(
            f"INSERT INTO {self.published} (name, run, created, ignored, published_at) "
            f"VALUES (%s, %s, %s, 0, {self.now}){self.ignore_same_name}",
            (name, run, created),
        )

    def published_job(self, name: str) -> Statement:
        """Read the run that published a job, and how many messages it created and ignored."""
        return Statement(f"SELECT run, created, ignored FROM {self.published} WHERE name = %s", (name,))

    def count_published(self, name: str, created: int, ignored: int) -> Statement:
        """Write what came of a publication."""
        return Statement(
            f"UPDATE {self.published} SET created = %s, ignored = %s, published_at = {self.now} WHERE name = %s",
            (created, ignored, name),
        )

    def count_staged(self, run: int) -> Statement:
        """Count the rows of each attempt of a run."""
        return Statement(
            f"SELECT attempt, COUNT(*) FROM {self.staged}{self.use_staged_run} WHERE run = %s GROUP BY attempt", (run,)
        )

    def publish(self, run: int, attempt: int) -> Statement:
        """Copy an attempt's rows into the queue, in their order; rows whose keys are taken are not counted."""
        later, delayed = self.later_of("due_at", self.now), self.plus(self.now, "delay_seconds")
        due = f"CASE WHEN due_at IS NOT NULL THEN {later} WHEN delay_seconds > 0 THEN {delayed} ELSE {self.now} END"
        names = tuple(name for name in STAGED if name not in ("delay_seconds", "due_at"))
        times = ("available_at", "due_at", "created_at", "live", "status", "read_count", "crashes")
        return Statement(
            f"INSERT INTO {self.message} ({self.columns((*names, *times))}) "
            f"SELECT {self.columns(names)}, {due}, {due}, {self.now}, "
            f"CASE WHEN key_hash IS NULL THEN NULL ELSE 1 END, '{NEW}', 0, 0 "
            f"FROM {self.staged}{self.use_staged_run} WHERE run = %s AND attempt = %s "
            f"ORDER BY place{self.keep_standing}",
            (run, attempt),
        )

    def staged_queues(self, run: int) -> Statement:
        """Read the queues that a run stages for."""
        return Statement(f"SELECT DISTINCT queue FROM {self.staged}{self.use_staged_run} WHERE run = %s", (run,))

    def drop_staged(self, run: int, attempt: int | None = None) -> Statement:
        """Delete what a run has staged, or one attempt of it."""
        if attempt is None:
            return Statement(f"{self.delete_staged} WHERE run = %s", (run,))
        return Statement(f"{self.delete_staged} WHERE run = %s AND attempt = %s", (run, attempt))

    def next_attempt(self, run: int, attempt: int) -> Statement:
        """Find the first attempt behind this one, in the order of the index: one step of a walk over all runs."""
        return Statement(
            f"SELECT run, attempt FROM {self.staged} WHERE (run, attempt) > (%s, %s) ORDER BY run, attempt LIMIT 1",
            (run, attempt),
        )

    def is_forsaken(self, run: int, attempt: int, seconds: float) -> Statement:
        """Read whether an attempt's newest row was staged that many seconds ago or earlier."""
        return Statement(
            f"SELECT staged_at <= {self.plus(self.now, '%s')} FROM {self.staged}{self.use_staged_run} "
            "WHERE run = %s AND attempt = %s ORDER BY place DESC LIMIT 1",
            (-seconds, run, attempt),
        )


def _said(rows: Sequence[tuple[Any, ...]]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the columns that some row says, and the rows cut down to them."""
    columns = {
        name: values
        for name, values in zip(STAGED, zip(*rows, strict=True), strict=True)
        if any(value is not None for value in values)
    }
    return list(columns), list(zip(*columns.values(), strict=True))
