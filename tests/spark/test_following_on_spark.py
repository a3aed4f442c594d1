"""The history as a stream of a real Spark, and everything that can go on beside it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import ArchivedMessage, HistoryReader, Message
from django_dbqueue.spark import history_readers
from django_dbqueue.spark.connection import Connection
from tests.process.conftest import wait_until
from tests.spark.archives import archive, ids, ids_of
from tests.spark.test_following import purge_to
from tests.systems.historians import MESSAGES, PATIENCE, PRODUCERS, let_go_on, ready

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def history(spark: SparkSession, credentials_file: str) -> Any:
    """The history as a stream, with these options besides."""

    def history(**options: Any) -> DataFrame:
        given = {"credentials_file": credentials_file, "source": "history", "reader": "r", **options}
        return spark.readStream.format("dbqueue").options(**given).load()

    return history


def into(path: Path, frame: DataFrame) -> DataStreamWriter:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(path / "checkpoint"))
    return writer.option("path", str(path / "out"))


def drain(path: Path, frame: DataFrame) -> None:
    assert into(path, frame).trigger(availableNow=True).start().awaitTermination(PATIENCE)


def test_each_row_once_whenever_the_query_is_started_again(spark: SparkSession, history: Any, tmp_path: Path) -> None:
    for _ in range(3):
        archive(7)
        drain(tmp_path, history(maxMessagesPerTrigger=3))

    assert ids_of(spark.read.parquet(str(tmp_path / "out"))) == ids()
    assert HistoryReader.objects.get().position == ids()[-1]

    with Connection(credentials_of("default")) as own:
        assert history_readers.forget(own, "r")
    archive(2)
    purge_to(ids()[-1])
    with pytest.raises(StreamingQueryException, match=r"rows up to .* were purged"):
        drain(tmp_path, history())


@pytest.mark.once
@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"once": True}, {"processingTime": "0 seconds"}])
def test_every_trigger_begins_with_nothing_and_takes_what_comes_later(
    spark: SparkSession, history: Any, tmp_path: Path, trigger: dict[str, Any]
) -> None:
    def begin() -> StreamingQuery:
        frame = history(minMessagesPerTrigger=2, maxMessagesPerTrigger=2)
        return into(tmp_path, frame).trigger(**trigger).start()

    query = begin()
    if "processingTime" in trigger:
        try:
            wait_until(lambda: HistoryReader.objects.exists() or query.exception(), "its first look")
            there = archive(4)
            wait_until(
                lambda: HistoryReader.objects.get().position == there[-1] or query.exception(), "its last commit"
            )
        finally:
            query.stop()
    else:
        assert query.awaitTermination(PATIENCE)
        there = archive(5)  # the last one is less than a batch waits for
        assert begin().awaitTermination(PATIENCE)
    assert ids_of(spark.read.parquet(str(tmp_path / "out"))) == there


def test_a_reader_misses_none_while_producers_and_archivers_run(
    spark: SparkSession, history: Any, tmp_path: Path, worker_env: dict[str, str]
) -> None:
    query = into(tmp_path, history(maxMessagesPerTrigger=200).select("id", "message_id")).start()
    deadline = time.monotonic() + 2 * PATIENCE
    try:
        while not HistoryReader.objects.exists():
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
        with ready(worker_env) as processes:
            for process in processes:
                let_go_on(process)
            while any(each.poll() is None for each in processes[:PRODUCERS]) or Message.objects.exists():
                assert time.monotonic() < deadline, "the table did not become empty"
            ends = [process.communicate(timeout=PATIENCE) for process in processes[PRODUCERS:]]
        assert [error for _, error in ends if error] == []
        while HistoryReader.objects.get().position < ids()[-1]:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
    finally:
        query.stop()

    found = [row.message_id for row in spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect()]
    assert found == list(ArchivedMessage.objects.order_by("id").values_list("message_id", flat=True))
    assert len(set(found)) == len(found) == MESSAGES
