"""Writes that are tried again, whole or in part: what a task's retry, a second run, and a repeated batch add."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import TaskContext
from pyspark.sql import functions

from django_dbqueue.models import Message, PublishedJob, StagedMessage
from django_dbqueue.spark import enqueue_dataframe
from tests.factories import MessageFactory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

QUEUE = "again"


def keyed(spark: SparkSession, rows: int = 1000) -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr("string(id) as json", "concat('k', id) as key")


def failing_once(frame: DataFrame, *, after: int) -> DataFrame:
    """The frame, of which each task can't be stored in its first try, from the row behind so many on."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        first = context is not None and context.attemptNumber() == 0
        seen = 0
        for batch in batches:
            items = batch.to_pylist()
            for row in items:
                seen += 1
                if first and seen > after:
                    row["json"] = "{broken"
            yield type(batch).from_pylist(items, schema=batch.schema)

    return frame.mapInArrow(rows, frame.schema)


def test_the_short_way_returns_what_came_of_it(spark: SparkSession, credentials_file: str) -> None:
    MessageFactory(queue=QUEUE, key="k5", payload="standing")
    published = enqueue_dataframe(keyed(spark), queue=QUEUE, job_id="j", credentials_file=credentials_file)
    assert (published.created, published.ignored, published.again) == (999, 1, False)
    assert Message.objects.count() == 1000
    assert PublishedJob.objects.values_list("name", "created", "ignored").get() == ("j", 999, 1)
    assert not StagedMessage.objects.exists()


def test_a_second_run_of_a_job_adds_nothing_though_workers_finished_some_of_it(
    spark: SparkSession, credentials_file: str
) -> None:
    """A key is free once its message is done: by keys alone, 1,000 would become 1,300."""
    options = {"queue": QUEUE, "job_id": "j", "credentials_file": credentials_file}
    enqueue_dataframe(keyed(spark), **options)
    Message.objects.ack(Message.objects.claim(300, queue=QUEUE, lease=60))
    again = enqueue_dataframe(keyed(spark), **options)
    assert (again.created, again.again) == (1000, True)
    assert Message.objects.count() == 1000
    assert Message.objects.done(QUEUE).count() == 300


def test_another_job_of_the_same_keys_ignores_all_that_are_live(spark: SparkSession, credentials_file: str) -> None:
    enqueue_dataframe(keyed(spark), queue=QUEUE, job_id="j", credentials_file=credentials_file)
    other = enqueue_dataframe(keyed(spark), queue=QUEUE, job_id="other", credentials_file=credentials_file)
    assert (other.created, other.ignored, other.again) == (0, 1000, False)
    assert Message.objects.count() == 1000


def test_without_a_name_each_call_is_a_job_of_its_own(spark: SparkSession, credentials_file: str) -> None:
    for _ in range(2):
        enqueue_dataframe(spark.range(5).selectExpr("id as payload"), queue=QUEUE, credentials_file=credentials_file)
    assert Message.objects.count() == 10


@pytest.mark.parametrize("key", ["concat('k', id)", "cast(null as string)"])
def test_a_task_that_fails_after_some_rows_and_is_tried_again_doubles_nothing(
    spark: SparkSession, credentials_file: str, key: str
) -> None:
    frame = spark.range(0, 1000, 1, 2).selectExpr("string(id) as json", f"{key} as key")
    published = enqueue_dataframe(
        failing_once(frame, after=300), queue=QUEUE, job_id="j", credentials_file=credentials_file, batch_size=100
    )
    assert (published.created, published.ignored) == (1000, 0)
    assert sorted(message.payload for message in Message.objects.all()) == list(range(1000))
    assert not StagedMessage.objects.exists()


def test_a_direct_write_doubles_what_a_failed_try_had_written_unless_it_has_keys(
    spark: SparkSession, credentials_file: str
) -> None:
    """At least once, as it says. The first try wrote 200 of its 300 good rows: the third hundred waited for more."""
    options = {"credentials_file": credentials_file, "direct": "true", "batchSize": "10"}
    for queue, key in (("keyless", "cast(null as string)"), ("keyed", "concat('k', id)")):
        frame = spark.range(0, 1000, 1, 1).selectExpr("string(id) as json", f"{key} as key", f"'{queue}' as queue")
        failing_once(frame, after=300).write.format("dbqueue").mode("append").options(**options).save()
    assert Message.objects.filter(queue="keyless").count() == 1200
    assert Message.objects.filter(queue="keyed").count() == 1000


def stream(spark: SparkSession, source: Path, checkpoint: Path, credentials_file: str, job_id: str = "s") -> None:
    frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(source))
    query = (
        frame.select(functions.col("id").alias("payload"))
        .writeStream.format("dbqueue")
        .options(credentials_file=credentials_file, queue=QUEUE, job_id=job_id)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def batch(source: Path, name: str, first: int) -> None:
    source.mkdir(exist_ok=True)
    (source / f"{name}.json").write_text("\n".join(f'{{"id": {first + place}}}' for place in range(50)))


def test_a_stream_that_is_started_again_from_its_checkpoint_goes_on(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    batch(source, "a", 0)
    batch(source, "b", 50)
    stream(spark, source, checkpoint, credentials_file)
    batch(source, "c", 100)
    stream(spark, source, checkpoint, credentials_file)
    assert sorted(message.payload for message in Message.objects.all()) == list(range(150))
    assert set(PublishedJob.objects.values_list("name", flat=True)) == {"s:0", "s:1", "s:2"}
    assert not StagedMessage.objects.exists()


def test_a_batch_of_a_stream_that_comes_twice_is_published_once(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    """Spark repeats a batch whose end it had not written down."""
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    for name, first in (("a", 0), ("b", 50)):
        batch(source, name, first)
    stream(spark, source, checkpoint, credentials_file)
    for written_down in (checkpoint / "commits").glob("*1*"):
        written_down.unlink()
    stream(spark, source, checkpoint, credentials_file)
    assert sorted(message.payload for message in Message.objects.all()) == list(range(100))
    assert not StagedMessage.objects.exists()


def test_a_stream_without_a_name_and_one_that_is_direct_are_refused(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("value as payload")
    writer = frame.writeStream.format("dbqueue").option("checkpointLocation", str(tmp_path))
    writer = writer.options(credentials_file=credentials_file, queue=QUEUE)
    with pytest.raises(Exception, match="'job_id' is missing"):
        writer.start().awaitTermination()
    with pytest.raises(Exception, match="always staged"):
        writer.options(job_id="s", direct="true").start().awaitTermination()
    assert not Message.objects.exists()
