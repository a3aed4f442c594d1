"""Data sources to which something happens; tests register them in the session that they share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from django_dbqueue.spark.consuming import ClaimStreamReader
from django_dbqueue.spark.source import DbQueueDataSource
from django_dbqueue.spark.stream_runner import StreamHeartbeat


class Heartless(ClaimStreamReader):
    """Its runner never beats."""

    @property
    def runner(self) -> Any:
        StreamHeartbeat._beat = lambda _: None  # type: ignore[method-assign] - the runner's process is this query's alone
        return super().runner


class WithoutHeartbeat(DbQueueDataSource):
    @classmethod
    def name(cls) -> str:
        return "without_heartbeat"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return Heartless(self.options, schema)


class Killed(ClaimStreamReader):
    """Each of its tasks dies in the middle of its first try."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        for batch in super().read(partition):
            yield batch.slice(0, 3)
            if context.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.slice(3)


class KilledOnce(DbQueueDataSource):
    @classmethod
    def name(cls) -> str:
        return "killed_once"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return Killed(self.options, schema)
