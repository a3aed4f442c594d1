"""Submitted to a cluster: writes, consumes and exports. Imports no Django; says each phase by a file.

While the first write runs, every task waits until the test has killed a worker.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from django_dbqueue.spark import enqueue_dataframe
from django_dbqueue.spark.jobs import export
from django_dbqueue.spark.jobs.config import ExportConfig

ROWS = 2_000
PARTS = 8


def main(shared: str) -> None:
    directory = Path(shared)
    spark = SparkSession.builder.getOrCreate()
    write(spark, directory)
    consume(spark, directory)
    (directory / "consumed").touch()
    wait_for(directory / "archived")
    exported = export.run(spark, ExportConfig(credentials_file="credentials.json", lake=f"{shared}/lake", older_than=0))
    (directory / "exported.json").write_text(json.dumps({"rows": exported.rows}))


def write(spark: SparkSession, directory: Path) -> None:
    """Each task says on which executor it is, and goes on when the test lets it."""

    def held_back(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        (directory / f"task-{context.taskAttemptId()}").write_text(str(Path.cwd()))
        wait_for(directory / "go on")
        yield from batches

    frame = spark.range(ROWS, numPartitions=PARTS).selectExpr("struct(id AS number) AS payload", "'n' || id AS key")
    held = frame.mapInArrow(held_back, frame.schema)
    enqueue_dataframe(held, queue="cluster", job_id="first", credentials_file="credentials.json")


def consume(spark: SparkSession, directory: Path) -> None:
    stream = (
        spark.readStream.format("dbqueue")
        .options(
            queue="cluster", stream="on-a-cluster", credentials_file="credentials.json", maxMessagesPerTrigger="700"
        )
        .load()
    )
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "sink"))
    )
    query.awaitTermination()
    numbers = spark.read.parquet(str(directory / "sink")).selectExpr("get_json_object(body, '$.number') AS n")
    counts = numbers.selectExpr("count(*)", "count(DISTINCT n)").collect()[0]
    (directory / "consumed.json").write_text(json.dumps(list(counts)))


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1])
