"""Publishing what a run of a job has staged: one transaction, once for each job name.

Its first statement writes the job's name, so that of two runs one waits for the other and then finds the name there;
its last one deletes the stage. A run that lost the server between the commit and its reply asks again, and finds itself
next to the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from django_dbqueue.exceptions import DBQueueError
from django_dbqueue.spark import staging_sql
from django_dbqueue.spark.admission import admitted
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.group_lines import into_lines, kick_groups
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.statements import enqueue_sql

ABANDONED_SECONDS: Final = 7 * 86_400.0
"""Seconds without a new row after which a run's stage is abandoned."""
_BEING_PUBLISHED: Final = -1
"""What the publishing transaction itself reads as the number of messages; nobody else ever sees it."""
_PUBLISHED_AT_ONCE: Final = 5_000
"""Rows per statement: MariaDB lets nobody else insert into the queue while an INSERT ... SELECT runs."""


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """A task's successful try, and how many rows it has staged."""

    number: int
    rows: int
    has_groups: bool = False
    """Whether some of them may be messages of groups."""


@dataclass(frozen=True, slots=True)
class Published:
    """What the job with this name added to the queue; ``again``: another run did so, and this one added nothing."""

    job: str
    created: int
    ignored: int
    again: bool

    def __str__(self) -> str:
        if self.again:
            return f"The job {self.job!r} was published before: nothing was added (then: {self._counts()})."
        return f"The job {self.job!r} is published: {self._counts()}."

    def _counts(self) -> str:
        return f"{self.created:,} messages created, {self.ignored:,} ignored because their keys were taken"


def find_published(connection: Connection, job: str, *, run: int) -> Published | None:
    """Return the result of a job, as this run sees it; None if it isn't published."""
    rows = connection.fetch(staging_sql.published_job(connection.server, job))
    if not rows:
        return None
    by, created, ignored = rows[0]
    return Published(job, int(created), int(ignored), again=by != run)


def publish(
    credentials: Credentials, *, job: str, run: int, attempts: Sequence[TaskAttempt], outage: float, notify: bool = True
) -> Published:
    """Publish these attempts of a run in order, unless the job is published; DBQueueError if rows are missing.

    A server that goes away is waited for, up to ``outage`` seconds.
    """
    lanes: dict[int, str] = {}  # survives a commit whose reply was lost
    with Lasting(credentials, outage=outage) as session:
        published = session.ask(
            lambda connection: connection.outermost(
                lambda: _publish(connection, job, run, attempts, lanes, notify=notify)
            )
        )
        if lanes:
            kick_groups(session, lanes, notify=notify)
    return published


def _publish(
    connection: Connection, job: str, run: int, attempts: Sequence[TaskAttempt], lanes: dict[int, str], *, notify: bool
) -> Published:
    """Publish in one transaction; ``lanes`` get those that are to be kicked after the commit, with their queues."""
    server = connection.server
    with connection.transaction():
        connection.run(staging_sql.name_job(server, job, run, _BEING_PUBLISHED))
        found = find_published(connection, job, run=run)
        assert found is not None
        if found.again or found.created != _BEING_PUBLISHED:
            connection.run(staging_sql.drop_staged(server, run))
            return found
        _refuse_missing_rows(connection, job, run, attempts)
        if any(attempt.has_groups for attempt in attempts):
            lanes.update((int(lane), queue) for lane, queue in connection.fetch(staging_sql.staged_lanes(server, run)))
        created = sum(
            _publish_some(connection, run, attempt, range(place, place + _PUBLISHED_AT_ONCE))
            for attempt in attempts
            for place in range(0, attempt.rows, _PUBLISHED_AT_ONCE)
        )
        ignored = sum(attempt.rows for attempt in attempts) - created
        connection.run(staging_sql.count_published(server, job, created, ignored))
        if notify and created and server.notifies:
            for (queue,) in connection.fetch(staging_sql.staged_queues(server, run)):
                connection.fetch(enqueue_sql.notify(queue))
        connection.run(staging_sql.drop_staged(server, run))
    return Published(job, created, ignored, again=False)


def _publish_some(connection: Connection, run: int, attempt: TaskAttempt, places: range) -> int:
    copy = staging_sql.publish(connection.server, run, attempt.number, places, has_groups=attempt.has_groups)
    return into_lines(connection, partial(connection.run, copy)) if attempt.has_groups else connection.run(copy)


def _refuse_missing_rows(connection: Connection, job: str, run: int, attempts: Sequence[TaskAttempt]) -> None:
    staged = {
        int(number): int(rows) for number, rows in connection.fetch(staging_sql.count_staged(connection.server, run))
    }
    for attempt in attempts:
        if (found := staged.get(attempt.number, 0)) != attempt.rows:
            raise DBQueueError(
                f"Job {job!r} was not published: a task staged {attempt.rows:,} messages, but {found:,} are there. "
                f"Somebody deleted rows from the stage, or it was purged after {ABANDONED_SECONDS / 86_400:g} days "
                "without a new row. Nothing was added; run the job again."
            )


def drop(credentials: Credentials, *, run: int) -> None:
    """Delete what a run has staged; what can't be deleted for lack of a server is purged by its age."""
    with admitted(credentials) as connection:
        connection.outermost(lambda: connection.run(staging_sql.drop_staged(connection.server, run)))


def purge_abandoned(credentials: Credentials, *, seconds: float = ABANDONED_SECONDS) -> int:
    """Delete stages without new rows for ``seconds``, mostly of killed drivers; return how many rows.

    A run that is still working keeps everything, however old its first rows are. If one is silent for longer and then
    publishes, it finds rows missing, and adds nothing.
    """
    deleted = 0
    with admitted(credentials) as connection:
        server, abandoned, here = connection.server, list[tuple[int, int]](), (0, 0)
        while rows := connection.fetch(staging_sql.next_attempt(server, *here)):
            run, attempt = (int(rows[0][0]), int(rows[0][1]))
            if run != here[0]:
                deleted += _drop_attempts(connection, abandoned)
                abandoned = []
            here = (run, attempt)
            if _is_abandoned(connection, run, attempt, seconds):
                abandoned.append(here)
            else:
                abandoned, here = [], (run, 2**63 - 1)
        return deleted + _drop_attempts(connection, abandoned)


def _is_abandoned(connection: Connection, run: int, attempt: int, seconds: float) -> bool:
    rows = connection.fetch(staging_sql.is_abandoned(connection.server, run, attempt, seconds))
    return not rows or bool(rows[0][0])


def _drop_attempts(connection: Connection, attempts: Sequence[tuple[int, int]]) -> int:
    deleted = 0
    for run, attempt in attempts:
        statement = staging_sql.drop_staged(connection.server, run, attempt)
        deleted += connection.outermost(lambda: connection.run(statement))  # noqa: B023 - called at once
    return deleted
