"""Everything of the pipeline with 64 partitions, sixteen at a time: ``python -m tests.spark.drivers.many_tasks``.

Arguments: the credentials file, a directory, the most sessions, and what to do (default: all). Says each step by a file
before it, and what came of it in JSON after all of them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django_dbqueue.spark import build_session, enqueue_dataframe
from django_dbqueue.spark.jobs.config import JOBS
from django_dbqueue.spark.jobs.job_execution import run_job
from tests.patience import patience

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 64
AT_ONCE = 16
ROWS = 3_200
QUEUE = "many"
MANY_PARTS = 1_000
"""Bytes of a file that are a partition of their own, so an ingest has some sixty."""
HAS_ROWS, FULL = "has_rows", "full"
"""Files: a task of ``write_when_full`` has rows to write, and nobody can have a session now."""
PATIENCE = patience(120)


class Steps:
    """The steps, in their order; each is a method."""

    def __init__(self, spark: SparkSession, credentials_file: str, directory: Path, sessions: int) -> None:
        self.spark, self.directory = spark, directory
        self.credentials = {"credentials_file": credentials_file}
        self.sessions = sessions
        self.options = {**self.credentials, "maxConnections": str(sessions)}
        self.parts = {**self.options, "numPartitions": str(PARTITIONS)}

    def numbers(self) -> DataFrame:
        return self.spark.range(ROWS, numPartitions=PARTITIONS).selectExpr("struct(id AS number) AS payload")

    def write_staged(self) -> int:
        published = enqueue_dataframe(
            self.numbers(), queue=QUEUE, job_id="many", max_connections=self.sessions, batch_size=10, **self.credentials
        )
        return published.created

    def write_when_full(self) -> int:
        """Tasks that write only once somebody else has said that no session is left."""
        has_rows, full = self.directory / HAS_ROWS, self.directory / FULL

        def when_full(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            has_rows.touch()
            deadline = time.monotonic() + PATIENCE
            while not full.exists():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"waited {PATIENCE:g} s in vain for {full}")
                time.sleep(0.02)
            yield from batches

        frame = self.numbers()
        return enqueue_dataframe(
            frame.mapInArrow(when_full, frame.schema),
            queue=QUEUE, job_id="many", max_connections=self.sessions, batch_size=10, **self.credentials,
        ).created  # fmt: skip

    def write_direct(self) -> int:
        writer = self.numbers().write.format("dbqueue").mode("append")
        writer.options(**self.options, queue=QUEUE, direct="true", batchSize="10").save()
        return ROWS

    def read(self) -> int:
        frame = self.spark.read.format("dbqueue").options(**self.parts, pageRows="20").load()
        assert frame.rdd.getNumPartitions() == PARTITIONS
        return frame.select("id").distinct().count()

    def read_and_write_in_one_task(self) -> int:
        """A task that reads and writes needs a session for each, and must not wait for one while it has the other."""
        frame = self.spark.read.format("dbqueue").options(**self.parts, queue=QUEUE, pageRows="20")
        frame = frame.schema("body string, content_type string").load()
        return enqueue_dataframe(
            frame, queue="again", job_id="again", max_connections=self.sessions, batch_size=10, **self.credentials
        ).created

    def consume(self) -> int:
        source = self.spark.readStream.format("dbqueue").options(**self.parts, queue=QUEUE, stream="many")
        return self._drained(source.load(), "consumed")

    def follow(self) -> int:
        """The history has no rows but the consumed ones, once they are archived."""
        source = self.spark.readStream.format("dbqueue").options(**self.parts, source="history", reader="many")
        return self._drained(source.load(), "followed")

    def _drained(self, frame: DataFrame, name: str) -> int:
        out = str(self.directory / name)
        writer = frame.select("id").writeStream.format("parquet").option("checkpointLocation", f"{out}-checkpoint")
        query = writer.trigger(availableNow=True).start(out)
        query.awaitTermination()
        return self.spark.read.parquet(out).distinct().count()

    def write_stream(self) -> int:
        (self.directory / "lines").mkdir(exist_ok=True)
        lines = "".join(f'{{"number": {number}}}\n' for number in range(ROWS))
        (self.directory / "lines" / "all.json").write_text(lines)
        source = self.spark.readStream.schema("number long").json(str(self.directory / "lines"))
        frame = source.repartition(PARTITIONS).selectExpr("struct(number) AS payload")
        writer = frame.writeStream.format("dbqueue").options(
            **self.options, queue="streamed", job_id="streamed", batchSize="10",
            checkpointLocation=str(self.directory / "streamed-checkpoint"),
        )  # fmt: skip
        writer.trigger(availableNow=True).start().awaitTermination()
        return ROWS

    def export(self) -> str:
        return self._job("export", lake=str(self.directory / "lake"), older_than=0.0)

    def statistics(self) -> str:
        return self._job("statistics", lake=(str(self.directory / "lake"),))

    def replay(self) -> str:
        return self._job("replay", lake=str(self.directory / "lake"), to_queue="replayed")

    def ingest(self) -> str:
        return self._job("ingest", source=str(self.directory / "lines"), format="json", queue="in", job_id="in")

    def streams(self) -> str:
        return self._job("streams")

    def readers(self) -> str:
        return self._job("readers")

    def release(self) -> str:
        return self._job("release", stream="many")

    def forget(self) -> str:
        return self._job("forget", stream="many")

    def _job(self, name: str, **fields: Any) -> str:
        config = JOBS[name].config(**self.credentials, max_connections=self.sessions, **fields)
        return str(run_job(JOBS[name], config))


def main(credentials_file: str, directory: str, sessions: str, *names: str) -> None:
    settings = {"spark.sql.shuffle.partitions": "4", "spark.driver.memory": "1g"}
    settings |= {"spark.sql.files.maxPartitionBytes": str(MANY_PARTS), "spark.sql.files.openCostInBytes": "0"}
    spark = build_session("many", master=f"local[{AT_ONCE}]", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    steps, results = Steps(spark, credentials_file, Path(directory), int(sessions)), {}
    for name in names:
        (Path(directory) / "step").write_text(name)
        step: Callable[[], int | str] = getattr(steps, name)
        results[name] = step()
        print(f"{time.monotonic():.0f} {name}: {results[name]}", flush=True)
    (Path(directory) / "results.json").write_text(json.dumps(results))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
