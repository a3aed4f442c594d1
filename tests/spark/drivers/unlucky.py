"""Data sources to which something happens; tests register them in the session that they share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from django_dbqueue.spark.consuming import ClaimStreamReader
from django_dbqueue.spark.data_source import DbQueueDataSource
from django_dbqueue.spark.following import HistoryStreamReader
from django_dbqueue.spark.stream_run import StreamHeartbeat
from django_dbqueue.spark.table_reader import TableReader


class Heartless(ClaimStreamReader):
    """Its runner never beats."""

    @property
    def run(self) -> Any:
        StreamHeartbeat._beat = lambda _: None  # type: ignore[method-assign] - the runner's process is this query's alone
        return super().run


class WithoutHeartbeat(DbQueueDataSource):
    @classmethod
    def name(cls) -> str:
        return "without_heartbeat"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return Heartless(self.options, schema)


class DiesOnce:
    """Each of its tasks dies in the middle of its first try."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        for batch in super().read(partition):  # type: ignore[misc] - of the reader that this is put before
            yield batch.slice(0, 3)
            if context.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.slice(3)


class Consumer(DiesOnce, ClaimStreamReader):
    pass


class Follower(DiesOnce, HistoryStreamReader):
    pass


class Reader(DiesOnce, TableReader):
    pass


class KilledOnce(DbQueueDataSource):
    @classmethod
    def name(cls) -> str:
        return "killed_once"

    def reader(self, schema: StructType) -> DataSourceReader:
        return Reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return (Follower if self.options.get("source") == "history" else Consumer)(self.options, schema)
