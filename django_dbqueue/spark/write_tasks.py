"""What a task of a write does: it seals its rows and inserts them, staged or directly, a few statements at a time."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from django_dbqueue.databases import Statement
from django_dbqueue.envelope import Sealed, in_inserts
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.outage import Lasting
from django_dbqueue.spark.publication import Attempt
from django_dbqueue.spark.rows import Sealing, row_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch

LARGEST: Final = 2**62
_STATEMENTS: Final = 10
"""Statements per transaction of a task: a commit waits for the server's disk."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the tasks of a write are given."""

    options: Mapping[str, str]
    sealing: Sealing
    job: str
    run: int
    batch_rows: int
    notify: bool
    outage: float
    """Seconds to wait for a database that is away."""

    @property
    def credentials(self) -> Credentials:
        """The credentials, read where they are needed; they are never sent."""
        return Credentials.load(self.options)


@dataclass(frozen=True, slots=True)
class Staged(WriterCommitMessage):
    """A task's successful try: whose it is, and how much it has staged."""

    run: int
    attempt: Attempt


def stage(task: Task, batches: Iterator[RecordBatch]) -> Staged:
    """Stage a task's rows under a number of this try's own; a try that fails removes its rows."""
    number, rows = random.randint(1, LARGEST), 0
    with Lasting(task.credentials, outage=task.outage) as session, without_collector():
        dialect = session.dialect
        try:
            for group in groups(task, batches):
                statements, first = [], rows
                for chunk in group:
                    said = [row_of(item, session.vendor) for item in chunk]
                    statements.append(dialect.staging.stage(task.job, task.run, number, said, place=rows))
                    rows += len(chunk)
                run_together(session, statements, undo=dialect.staging.drop_staged_from(task.run, number, first))
        except InvalidMessage:
            run_together(session, [dialect.staging.drop_staged(task.run, number)])
            raise
    return Staged(task.run, Attempt(number, rows))


def groups(task: Task, batches: Iterator[RecordBatch]) -> Iterator[list[list[Sealed]]]:
    """Seal a task's rows, and split them into what one transaction writes: statements of ``batchSize`` rows."""
    parts = in_inserts(task.sealing.sealed(batches, partition=_partition()), rows=task.batch_rows)
    while group := list(islice(parts, _STATEMENTS)):
        yield group


def run_together(session: Lasting, statements: Sequence[Statement], *, undo: Statement | None = None) -> int:
    """Run a transaction of statements, and return how many rows they wrote.

    ``undo`` removes what a commit with a lost reply wrote, before the same is written again.
    """
    tries = 0

    def run(connection: Connection) -> int:
        with connection.transaction():
            if undo is not None and tries > 1:
                connection.run(undo)
            return sum(connection.run(statement) for statement in statements)

    def work(connection: Connection) -> int:
        nonlocal tries
        tries += 1
        return connection.outermost(lambda: run(connection))

    return session.ask(work)


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the cycle collector, which would check every row and find nothing (measured: a quarter of the time)."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
