"""Drains a queue into Parquet as a program of its own, which dies where it is told to.

``python -m tests.spark.drivers.consuming PLACE CREDENTIALS [POINT]``. The points lie in the runner, or in a task; there
the JVM is killed first, and then the process itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from django_dbqueue.spark.consuming import ClaimStreamReader, Slice
from django_dbqueue.spark.data_source import DbQueueDataSource
from tests.spark.drivers.dying import POINT, die_everywhere, mortal_everywhere, wait_for_death

QUEUE = "tests"
BATCH = 200
AT = 4
"""The claim at which it dies: some batches are through by then."""
LAST = 9
"""The claim after which one without a point waits for its death by somebody else, who may be late."""
POINTS = ("before the claim", "after the claim", "in partitions", "in a task", "before the ack", "after the ack")


class Mortal(ClaimStreamReader):
    """Reads the queue as ever, up to its point."""

    def __init__(self, options: Any, schema: StructType) -> None:
        super().__init__(options, schema)
        self.point = os.environ[POINT]

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        number = int(start["claim"])
        if number == LAST and not self.point:
            wait_for_death()
        if number == AT and self.point == "before the ack":
            die_everywhere()
        if number == AT and self.point == "after the ack":
            self.run.ack(number)
            die_everywhere()
        if number == AT - 1 and self.point == "before the claim":
            self.run.ack(number)
            die_everywhere()
        offset = super().latestOffset(start, limit)
        if offset["claim"] == AT and self.point == "after the claim":
            die_everywhere()
        return offset

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Any:
        planned = super().partitions(start, end)
        if end["claim"] == AT and self.point == "in partitions":
            die_everywhere()
        return planned

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Slice)
        for batch in super().read(partition):
            yield batch
            if partition.number == AT and self.point == "in a task":
                die_everywhere()


class MortalSource(DbQueueDataSource):
    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return Mortal(self.options, schema)


def drain(spark: SparkSession, source: str, place: Path, credentials: str) -> None:
    options = {"credentials_file": credentials, "queue": QUEUE, "stream": "s", "maxMessagesPerTrigger": str(BATCH)}
    frame = spark.readStream.format(source).options(**options).load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start(str(place / "out")).awaitTermination()


def main(place: Path, credentials: str, point: str) -> None:
    spark = mortal_everywhere(place, point)
    spark.dataSource.register(MortalSource)
    drain(spark, "mortal", place, credentials)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
