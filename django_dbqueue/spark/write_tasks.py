"""What a task of a write does: it seals its rows and inserts them, staged or directly, a few statements at a time."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from django_dbqueue.databases import Statement
from django_dbqueue.databases.statement import Copy, Row
from django_dbqueue.envelope import Sealed, in_inserts
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.spark import staging_sql
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.group_lines import into_lines, kick_groups
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.spark.publication import TaskAttempt
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
    attempt: TaskAttempt


def stage(task: Task, batches: Iterator[RecordBatch]) -> Staged:
    """Stage a task's rows under a number of this try's own; a try that fails removes its rows."""
    number, rows, has_groups = random.randint(1, LARGEST), 0, False
    with Lasting(task.credentials, outage=task.outage) as session, without_collector():
        server = session.server
        try:
            for group in groups(task, batches):
                statements, first = [], rows
                for chunk in group:
                    values = [row_of(item, session.vendor) for item in chunk]
                    statements.append(staging_sql.stage(server, task.job, task.run, number, values, place=rows))
                    rows += len(chunk)
                    has_groups = has_groups or any(item.lane is not None for item in chunk)
                run_together(session, statements, undo=staging_sql.drop_staged_from(server, task.run, number, first))
                session.rest()
        except InvalidMessage:
            run_together(session, [staging_sql.drop_staged(server, task.run, number)])
            raise
    return Staged(task.run, TaskAttempt(number, rows, has_groups))


def write_directly(session: Lasting, group: Sequence[Sequence[Sealed]], *, notify: bool) -> int:
    """Insert a task's rows into the queue, in one transaction; return how many were not left out for their keys.

    Those of groups wait until it is committed; then their groups continue.
    """
    server = session.server
    loose = [[row_of(item, session.vendor) for item in chunk if item.lane is None] for chunk in group]
    in_lanes = [[row_of(item, session.vendor) for item in chunk if item.lane is not None] for chunk in group]
    lanes = {item.lane: item.queue for chunk in group for item in chunk if item.lane is not None}

    def write(connection: Connection) -> int:
        with connection.transaction():
            created = _insert(connection, [each for each in loose if each])
            for each in filter(None, in_lanes):
                insert = staging_sql.insert_directly(server, each)
                created += into_lines(connection, partial(connection.run, insert))
        return created

    created = session.ask(lambda connection: connection.outermost(lambda: write(connection)))
    if lanes:
        kick_groups(session, lanes, notify=notify)
    return created


def _insert(connection: Connection, chunks: Sequence[Sequence[Row]]) -> int:
    """Insert messages of no group in the open transaction; return how many were not left out for their keys."""
    if not (chunks and connection.server.copies):
        return sum(connection.run(staging_sql.insert_directly(connection.server, chunk)) for chunk in chunks)
    run, rows = random.randint(1, LARGEST), 0
    for chunk in chunks:
        connection.run(staging_sql.stage(connection.server, "", run, run, chunk, place=rows))
        rows += len(chunk)
    created = connection.run(staging_sql.publish(connection.server, run, run, range(rows)))
    connection.run(staging_sql.drop_staged(connection.server, run))
    return created


def groups(task: Task, batches: Iterator[RecordBatch]) -> Iterator[list[list[Sealed]]]:
    """Seal a task's rows, and split them into what one transaction writes: statements of ``batchSize`` rows."""
    parts = in_inserts(task.sealing.sealed(batches, partition=_partition()), rows=task.batch_rows)
    while group := list(islice(parts, _STATEMENTS)):
        yield group


def run_together(session: Lasting, statements: Sequence[Statement | Copy], *, undo: Statement | None = None) -> int:
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
