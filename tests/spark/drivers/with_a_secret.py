"""Reads, writes and streams under an account whose password the test then looks for in everything that was left."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from urllib.request import urlopen

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from django_dbqueue.spark import build_session, enqueue_dataframe
from django_dbqueue.spark.table_reader import TableReader, schema_of

PAGES = ("environment", "executors", "stages", "jobs", "storage/rdd", "sql?details=true&planDescription=true")


def main(shared: str, credentials_file: str) -> None:
    directory = Path(shared)
    (directory / "events").mkdir()
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (directory / "events").as_uri(),
        "spark.driver.memory": "1g",
    }
    spark = build_session("secret", master="local[2]", settings=settings)
    spark.sparkContext.setLogLevel("INFO")
    options = {"credentials_file": credentials_file}
    enqueue_dataframe(spark.range(10).selectExpr("id AS payload"), queue="secret", job_id="secret", **options)
    frame = spark.read.format("dbqueue").options(**options).load().filter("queue = 'secret'")
    (directory / "explained.txt").write_text(explained(frame))
    assert frame.count() == 10
    frame.createOrReplaceTempView("messages")
    spark.sql("SELECT queue, count(*) FROM messages GROUP BY queue").collect()
    stream(spark, directory, options)
    (directory / "reader.pickle").write_bytes(cloudpickle.dumps(TableReader(options, schema_of(options))))
    with contextlib.suppress(Exception):  # its text is on stderr, which is searched too
        spark.read.format("dbqueue").options(**options, queue="no such queue!").load().count()
    keep_pages(spark, directory)
    spark.stop()


def explained(frame: object) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        frame.explain(extended=True)  # type: ignore[attr-defined]
        frame.explain(mode="formatted")  # type: ignore[attr-defined]
    return out.getvalue()


def stream(spark: SparkSession, directory: Path, options: dict[str, str]) -> None:
    source = spark.readStream.format("dbqueue").options(**options, queue="secret", stream="secret").load()
    checkpoint = str(directory / "checkpoint")
    writing = source.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    query = writing.trigger(availableNow=True).start(str(directory / "sink"))
    query.awaitTermination()
    progress = json.dumps([each.json for each in query.recentProgress])
    (directory / "progress.json").write_text(progress)


def keep_pages(spark: SparkSession, directory: Path) -> None:
    url = spark.sparkContext.uiWebUrl
    for number, page in enumerate(PAGES):
        with urlopen(f"{url}/api/v1/applications/{spark.sparkContext.applicationId}/{page}") as answer:
            (directory / f"page-{number}.json").write_bytes(answer.read())
    for page in ("environment/", "SQL/", "StreamingQuery/"):
        with urlopen(f"{url}/{page}") as answer:
            (directory / f"{page[:-1]}.html").write_bytes(answer.read())


if __name__ == "__main__":
    main(*sys.argv[1:])
