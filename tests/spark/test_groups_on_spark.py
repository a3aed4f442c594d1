"""Groups on a real Spark: a column of what is written, read and kept, and an order that a stream keeps too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from django_dbqueue import Envelope
from django_dbqueue.keys import lane_of
from django_dbqueue.models import ArchivedMessage, Line, Message, Ticket
from django_dbqueue.spark import enqueue_dataframe
from django_dbqueue.spark.jobs import ingest, replay
from django_dbqueue.spark.jobs.config import IngestConfig, ReplayConfig
from django_dbqueue.spark.lake import COLUMNS, read_lake
from tests.process.conftest import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.lakes import Lake

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]
QUEUE = "tests"
ROWS = [(0, "a"), (1, "b"), (2, None), (3, "a"), (4, "a"), (5, "b")]


def frame_of(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, "payload int, group string").coalesce(1)


def write(df: DataFrame, credentials_file: str, **options: str) -> None:
    given = {"credentials_file": credentials_file, "queue": QUEUE} | options
    df.write.format("dbqueue").mode("append").options(**given).save()


def drained() -> list[list[Any]]:
    found = []
    while batch := Message.objects.claim(100, queue=QUEUE):
        found.append(sorted((message.payload for message in batch), key=str))
        Message.objects.ack(batch)
    return found


@pytest.mark.parametrize("direct", ["false", "true"])
def test_a_column_names_the_group_of_each_row(spark: SparkSession, credentials_file: str, direct: str) -> None:
    write(frame_of(spark), credentials_file, direct=direct)
    assert dict(Message.objects.values_list("body", "group_name")) == {str(n): group for n, group in ROWS}
    assert set(Message.objects.values_list("lane", flat=True)) == {lane_of(QUEUE, "a"), lane_of(QUEUE, "b"), None}
    assert drained() == [[0, 1, 2], [3, 5], [4]]
    assert not Line.objects.exists()
    assert not Ticket.objects.exists()


def test_rows_without_a_group_are_in_the_one_of_the_option(spark: SparkSession, credentials_file: str) -> None:
    enqueue_dataframe(frame_of(spark), queue=QUEUE, credentials_file=credentials_file, group="others")
    assert Message.objects.get(group_name="others").payload == 2
    whole = spark.createDataFrame([(n,) for n in range(3)], "payload int").coalesce(1)
    ingest_all = {"queue": "bank", "credentials_file": credentials_file, "group": "*"}
    enqueue_dataframe(whole, **ingest_all)  # type: ignore[arg-type]
    assert set(Message.objects.filter(queue="bank").values_list("lane", "group_name")) == {(lane_of("bank", "*"), "*")}
    with pytest.raises(PySparkException, match="All messages are one group"):
        enqueue_dataframe(frame_of(spark), **ingest_all)  # type: ignore[arg-type]
    assert Message.objects.filter(queue="bank").count() == 3


@pytest.mark.parametrize(("group", "why"), [("", "0 characters"), ("x" * 201, "201 characters"), ("a\0", "NUL")])
def test_a_group_that_none_can_be_is_refused_with_its_row(
    spark: SparkSession, credentials_file: str, group: str, why: str
) -> None:
    frame = spark.createDataFrame([(1, "fine"), (2, group)], "payload int, group string").coalesce(1)
    with pytest.raises(PySparkException, match=f"Row 2 of partition 0.*{why}"):
        write(frame, credentials_file)
    assert not Message.objects.exists()


def test_an_ingest_maps_a_column_to_the_group(spark: SparkSession, credentials_file: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,customer\n1,a\n2,b\n3,a\n")
    ingest.run(
        spark,
        IngestConfig(
            credentials_file=credentials_file,
            source=str(tmp_path / "in.csv"),
            option=(("header", "true"),),
            queue=QUEUE,
            job_id="customers",
            column=(("payload", "id"), ("group", "customer")),
        ),
    )
    assert drained() == [["1", "2"], ["3"]]


def test_readers_show_the_group_and_find_those_that_wait(spark: SparkSession, credentials_file: str) -> None:
    Message.objects.enqueue_many([Envelope(n, group=group) for n, group in ROWS], queue=QUEUE)
    read = spark.read.format("dbqueue").options(credentials_file=credentials_file)
    assert {(row.body, row.group_name) for row in read.load().collect()} == {(str(n), group) for n, group in ROWS}
    waiting = read.options(status="waiting", queue=QUEUE).load()
    assert sorted(row.body for row in waiting.collect()) == ["3", "4", "5"]
    assert waiting.where("group_name = 'b'").count() == 1
    assert sorted(row.body for row in read.options(status="ready", queue=QUEUE).load().collect()) == ["0", "1", "2"]


def test_the_lake_keeps_the_group_and_a_replay_sends_into_it_again(
    spark: SparkSession, credentials_file: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    Message.objects.enqueue("old", queue=QUEUE)
    assert drained() == [["old"]]
    assert Message.objects.filter(status="y").purge() == 1
    with monkeypatch.context() as before:  # the lake as versions without groups and flows wrote it
        older = tuple(column for column in COLUMNS if column[0] not in ("group_name", "flow"))
        before.setattr("django_dbqueue.spark.jobs.export.COLUMNS", older)
        before.setattr("django_dbqueue.spark.verifying.summing.__defaults__", (older,))
        lake.export()
    Message.objects.enqueue_many([Envelope(n, group=group) for n, group in ROWS], queue=QUEUE)
    drained()
    assert Message.objects.filter(status="y").purge() == len(ROWS)
    lake.export()
    assert not ArchivedMessage.objects.exists()
    kept = {row.body: row.group_name for row in read_lake(spark, str(lake.root)).collect()}
    assert kept == {"old": None} | {str(n): group for n, group in ROWS}

    replay.run(spark, ReplayConfig(credentials_file=credentials_file, lake=str(lake.root)))
    assert dict(Message.objects.values_list("body", "group_name")) == kept
    assert len(drained()) == 3


def test_a_stream_delivers_each_group_in_order(spark: SparkSession, credentials_file: str, tmp_path: Path) -> None:
    sent = [Envelope(n, group=f"g{n % 3}") for n in range(12)]
    Message.objects.enqueue_many(sent, queue=QUEUE)
    stream = spark.readStream.format("dbqueue").options(credentials_file=credentials_file, queue=QUEUE, stream="s")
    batches: list[list[int]] = []
    writer = stream.load().writeStream.foreachBatch(
        lambda batch, _: batches.append(sorted(int(row.body) for row in batch.collect()))
    )
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_until(lambda: Message.objects.done(QUEUE).count() == 12, "all are acked")
    finally:
        query.stop()
    assert [batch for batch in batches if batch] == [[n, n + 1, n + 2] for n in range(0, 12, 3)]
    assert not Ticket.objects.exists()
