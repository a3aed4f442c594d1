"""Replays in a session whose writer kills everything at a point: ``CREDENTIALS LAKE JOB POINT``.

``staged``: before the publishing transaction; ``publishing``: within it, when the messages are inserted;
``published``: after its commit.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from django_dbqueue.databases import Statement
from django_dbqueue.spark import build_session
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.data_source import DbQueueDataSource
from django_dbqueue.spark.jobs import replay
from django_dbqueue.spark.jobs.config import ReplayConfig
from django_dbqueue.spark.writing import StagedWriter, writer_of

POINT = "KILLED_REPLAY_POINT"
GROUP = "KILLED_REPLAY_GROUP"


def die() -> None:
    """End driver and JVM, and this process, which Spark has started in a group of its own."""
    os.killpg(int(os.environ[GROUP]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class MortalConnection(Connection):
    """Dies with the messages inserted, and not committed."""

    def run(self, statement: Statement) -> int:
        rows = super().run(statement)
        if statement.sql.startswith(f"INSERT INTO {self.server.message} "):
            assert rows
            die()
        return rows


class MortalWriter(StagedWriter):
    """Commits as the product does, up to the point."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from django_dbqueue.spark import admission

        if os.environ[POINT] == "staged":
            die()
        if os.environ[POINT] == "publishing":
            assert admission.Connection is Connection
            admission.Connection = MortalConnection  # type: ignore[misc]
        super().commit(messages)
        die()


class MortalSource(DbQueueDataSource):
    """The data source with that writer."""

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        writer = writer_of(self.options, schema, overwrite=overwrite)
        assert isinstance(writer, StagedWriter)
        return MortalWriter(writer.task, again=writer.again)


def main(credentials: str, lake: str, job: str, point: str) -> None:
    os.environ |= {POINT: point, GROUP: str(os.getpgrp())}
    spark = build_session("killed replay", master="local[2]", settings={"spark.driver.memory": "1g"})
    spark.dataSource.register(MortalSource)
    replay.run(spark, ReplayConfig(credentials_file=credentials, lake=lake, job_id=job))


if __name__ == "__main__":
    from tests.spark.drivers import killed_replay  # so that the classes are known by a name that others can import

    killed_replay.main(*sys.argv[1:])
