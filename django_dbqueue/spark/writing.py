"""Data frames into the queue: staged and published at once, exactly once for each job name; or directly.

A writer is created on the driver, pickled to the tasks, and asked to commit back on the driver. For a stream, the
driver commits with a different object, which knows of the tasks' one only what their messages say.
"""

from __future__ import annotations

import logging
import random
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

from django_dbqueue.envelope import check_queue
from django_dbqueue.exceptions import InvalidMessage, InvalidPipeline
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.spark.outage import OPTION as OUTAGE
from django_dbqueue.spark.outage import outage_of
from django_dbqueue.spark.publication import TaskAttempt, drop, find_published, publish, purge_abandoned
from django_dbqueue.spark.rows import Sealing, check_sent_group
from django_dbqueue.spark.source_options import Options
from django_dbqueue.spark.write_tasks import (
    LARGEST,
    Staged,
    Task,
    groups,
    stage,
    without_collector,
    write_directly,
)
from django_dbqueue.statements import enqueue_sql

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

OPTIONS: Final = (
    "queue",
    "job_id",
    "direct",
    "priority",
    "group",
    "batchSize",
    "max_payload_bytes",
    "notify",
    "run",
    OUTAGE,
)
BATCH_ROWS: Final = 1_000
MAX_PAYLOAD_BYTES: Final = 1024 * 1024
_JOB: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/=+-]{0,179}\Z")

logger = logging.getLogger("django_dbqueue.spark")


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """How many messages a task created and how many it left out, in its successful try."""

    created: int
    ignored: int


def writer_of(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceWriter:
    """Return the writer of a batch; InvalidPipeline for what no row could make valid."""
    chosen = _options(options, overwrite=overwrite)
    if chosen.flag("direct"):
        if chosen.text("job_id") is not None:
            raise InvalidPipeline(
                "direct=true publishes row by row and remembers no job, so job_id would have no effect: leave out "
                "one of them."
            )
        return DirectWriter(_task(chosen, schema, job=""))
    job = chosen.text("job_id") or f"write-{secrets.token_hex(8)}"
    task = _task(chosen, schema, job=_checked_job(job))
    with Lasting(task.credentials, outage=task.outage) as session:
        published = session.ask(lambda connection: find_published(connection, job, run=task.run))
    return StagedWriter(task, again=published is not None)


def stream_writer_of(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceStreamWriter:
    """Return the writer of a stream; InvalidPipeline for what no row could make valid."""
    chosen = _options(options, overwrite=overwrite)
    if chosen.flag("direct"):
        raise InvalidPipeline("A stream is always staged: leave out direct, or write directly in foreachBatch.")
    job = chosen.required(
        "job_id",
        "it names the stream's batches, so a repeated batch adds nothing. Never change it while you keep the "
        "checkpoint, and never reuse it with a new one.",
    )
    return StreamWriter(_task(chosen, schema, job=_checked_job(job)))


def _options(options: Mapping[str, str], *, overwrite: bool) -> Options:
    chosen = Options.of(options, OPTIONS)
    if overwrite:
        raise InvalidPipeline("Messages can't be overwritten: a queue takes mode('append') only. Nothing was written.")
    return chosen


def _checked_job(job: str) -> str:
    if _JOB.match(job) is None:
        raise InvalidPipeline(
            f"The option 'job_id' is {job!r}; it must be 1 to 180 of A-Z a-z 0-9 _ . : / = + -, beginning with a "
            "letter or a digit."
        )
    return job


def _task(options: Options, schema: StructType, *, job: str) -> Task:
    sealing = Sealing(
        schema=schema,
        queue=_checked(options, "queue", check_queue),
        priority=options.whole("priority", 0, least=-100, most=100),
        max_bytes=options.whole("max_payload_bytes", MAX_PAYLOAD_BYTES),
        group=_checked(options, "group", check_sent_group),
    )
    sealing.check()
    Credentials.load(options.values)
    return Task(
        options=dict(options.values),
        sealing=sealing,
        job=job,
        run=options.whole("run", most=LARGEST) or random.randint(1, LARGEST),
        batch_rows=options.whole("batchSize", BATCH_ROWS, most=2_000),
        notify=options.flag("notify", default=True),
        outage=outage_of(options),
    )


def _checked(options: Options, name: str, check: Callable[[object], str]) -> str | None:
    text = options.text(name)
    try:
        return None if text is None else check(text)
    except InvalidMessage as error:
        raise InvalidPipeline(f"The option {name!r}: {error}") from error


def _publish(task: Task, job: str, run: int, messages: Sequence[WriterCommitMessage | None]) -> None:
    attempts = [message.attempt for message in messages if isinstance(message, Staged)]
    credentials = task.credentials
    published = publish(credentials, job=job, run=run, attempts=attempts, outage=task.outage, notify=task.notify)
    logger.log(logging.WARNING if published.again else logging.INFO, "%s", published)
    try:
        purge_abandoned(credentials)
    except Exception:
        logger.warning(
            "Messages staged by killed drivers could not be purged now; the next job will try again.", exc_info=True
        )


class StagedWriter(DataSourceArrowWriter):
    """Exactly once for each job_id: tasks stage, the commit publishes."""

    def __init__(self, task: Task, *, again: bool) -> None:
        self.task = task
        self.again = again
        """The job was published before: there is nothing to stage."""

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        if self.again:
            return Staged(self.task.run, TaskAttempt(0, 0))
        return stage(self.task, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _publish(self.task, self.task.job, self.task.run, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's name
        drop(self.task.credentials, run=self.task.run)


class StreamWriter(DataSourceStreamArrowWriter):
    """The same for each batch of a stream, under the name ``<job_id>:<batch id>``."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        return stage(self.task, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        runs = self._runs(messages)
        _publish(self.task, f"{self.task.job}:{batchId}", runs[0] if runs else self.task.run, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        for run in self._runs(messages):
            drop(self.task.credentials, run=run)

    @staticmethod
    def _runs(messages: Sequence[WriterCommitMessage | None]) -> list[int]:
        return sorted({message.run for message in messages if isinstance(message, Staged)})


class DirectWriter(DataSourceArrowWriter):
    """At least once: rows are in the queue as soon as they are written, and a retried task writes them again."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        task, created, rows = self.task, 0, 0
        with Lasting(task.credentials, outage=task.outage) as session, without_collector():
            server = session.server
            for group in groups(task, iterator):
                created += write_directly(session, group, notify=task.notify)
                rows += sum(map(len, group))
                if task.notify and server.notifies:
                    for queue in sorted({item.queue for chunk in group for item in chunk}):
                        session.ask(partial(Connection.fetch, statement=enqueue_sql.notify(queue)))
                session.rest()
        return Written(created, rows - created)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        done = [message for message in messages if isinstance(message, Written)]
        logger.info(
            "Written directly: %s messages created, %s ignored because their keys were taken.",
            f"{sum(message.created for message in done):,}",
            f"{sum(message.ignored for message in done):,}",
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's name
        logger.warning(
            "The write failed before it was complete. Messages that were written directly stay in the queue."
        )
