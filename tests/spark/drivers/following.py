"""Follows the history into Parquet as a program of its own, which dies where it is told to.

``python -m tests.spark.drivers.following PLACE OPTIONS POINT ID``, the options as JSON, and the id up to which it gets
before the point. The points lie in the runner, or in a task.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from django_dbqueue.spark.data_source import DbQueueDataSource
from django_dbqueue.spark.following import HistoryPiece, HistoryStreamReader
from tests.spark.drivers.dying import POINT, die_everywhere, mortal_everywhere

BATCH = 10
POINTS = ("in partitions", "in a task", "after the commit")


class Mortal(HistoryStreamReader):
    """Reads the history as ever, up to its point."""

    def __init__(self, options: Any, schema: StructType) -> None:
        super().__init__(options, schema)
        self.point, _, after = os.environ[POINT].rpartition(" ")
        self.after = int(after)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        planned = super().partitions(start, end)
        if (self.point, self.after) == ("in partitions", start["id"]):
            die_everywhere()
        return planned

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, HistoryPiece)
        for batch in super().read(partition):
            yield batch
            if (self.point, self.after) == ("in a task", partition.after):
                die_everywhere()

    def commit(self, end: dict[str, int]) -> None:
        super().commit(end)
        if (self.point, self.after) == ("after the commit", end["id"]):
            die_everywhere()


class MortalSource(DbQueueDataSource):
    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return Mortal(self.options, schema)


def drain(spark: SparkSession, source: str, place: Path, options: dict[str, str]) -> None:
    given = {**options, "source": "history", "reader": "r", "maxMessagesPerTrigger": str(BATCH)}
    frame = spark.readStream.format(source).options(**given).load().select("id")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start(str(place / "out")).awaitTermination()


def main(place: Path, options: str, point: str, after: str) -> None:
    spark = mortal_everywhere(place, f"{point} {after}")
    spark.dataSource.register(MortalSource)
    drain(spark, "mortal", place, json.loads(options))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
