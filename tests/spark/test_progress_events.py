"""A listener of a query sees how much is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from django_dbqueue import Envelope
from django_dbqueue.databases import Statement
from django_dbqueue.models import Message
from django_dbqueue.spark import stream_run
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.consuming import ClaimStreamReader
from django_dbqueue.spark.following import reader_of
from django_dbqueue.spark.schemas import HISTORY, MESSAGES
from tests.spark.archives import archive, ids
from tests.systems.historians import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.django_db(transaction=True)


def options(credentials_file: str) -> dict[str, str]:
    return {"credentials_file": credentials_file, "source": "history", "reader": "r", "maxMessagesPerTrigger": "3"}


@pytest.mark.spark
def test_each_batch_reports_where_it_ends_and_where_the_history_does(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    archive(7)
    frame = spark.readStream.format("dbqueue").options(**options(credentials_file)).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE)

    sources = [each.sources[0] for each in query.recentProgress if each.numInputRows]
    batches = [(json.loads(each.endOffset)["id"], json.loads(each.latestOffset)["id"]) for each in sources]
    every = ids()
    assert batches == [(every[2], every[-1]), (every[5], every[-1]), (every[6], every[-1])]


@pytest.mark.spark
def test_each_batch_of_a_consuming_stream_reports_what_it_leaves(
    spark: SparkSession, credentials_file: str, tmp_path: Path
) -> None:
    Message.objects.enqueue_many([Envelope(n, group="g") for n in range(3)], queue="tests")
    Message.objects.enqueue_many([Envelope(n) for n in range(7)], queue="tests")
    given = {"credentials_file": credentials_file, "queue": "tests", "stream": "s", "maxMessagesPerTrigger": "3"}
    frame = spark.readStream.format("dbqueue").options(**given).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE)

    sources = [each.sources[0] for each in query.recentProgress if each.numInputRows]
    left = [json.loads(each.latestOffset) for each in sources]
    named = {"dbqueue": "stream:s", "capped": False}
    assert left == [
        {**named, "ready": 5, "waiting": 2},
        {**named, "ready": 3, "waiting": 1},  # the second of the group became due with the ack of the first
        {**named, "ready": 1, "waiting": 1},
    ]
    assert [each.metrics for each in sources] == [{}] * 3, "Spark asks sources in Python for none"


def test_a_consuming_stream_reports_how_many_are_left_behind_its_claim(
    credentials_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"credentials_file": credentials_file, "queue": "tests", "stream": "s"}
    stream = ClaimStreamReader(given, MESSAGES.schema)
    Message.objects.enqueue_many([Envelope(n, priority=n % 2) for n in range(7)], queue="tests")
    Message.objects.enqueue_many([Envelope(n, group="g") for n in range(2)], queue="tests")
    Message.objects.enqueue("later", queue="tests", delay=3_600)
    Message.objects.enqueue("another", queue="other")
    limit = ReadMaxRows(3)
    try:
        assert stream.latestOffset({"claim": 0}, limit) == {"claim": 1}
        expected = {"dbqueue": "stream:s", "ready": 5, "waiting": 1, "capped": False}
        assert stream.reportLatestOffset() == expected
        Message.objects.enqueue("new", queue="tests")
        assert stream.reportLatestOffset() == expected, "it counts once for each check"
        monkeypatch.setattr(stream_run, "MOST_COUNTED", 2)
        stream.run._count_at = 0.0  # as if the count had cost nothing
        assert stream.latestOffset({"claim": 1}, limit) == {"claim": 2}
        assert stream.reportLatestOffset() == {"dbqueue": "stream:s", "ready": 2, "waiting": 0, "capped": True}
    finally:
        stream.stop()


def test_a_query_that_found_nothing_is_not_repeated_for_its_progress(
    credentials_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(2)
    stream = reader_of(options(credentials_file), HISTORY.schema)
    begin = stream.initialOffset()
    end = stream.latestOffset(begin, ReadMaxRows(3))
    archive(1)
    assert stream.reportLatestOffset() == {"dbqueue": "reader:r", "id": ids()[-1]}

    end = stream.latestOffset(end, ReadMaxRows(3))
    assert stream.latestOffset(end, ReadMaxRows(3)) == end
    statements: list[Statement] = []
    real = Connection.fetch

    def noted(session: Connection, statement: Statement) -> Any:
        statements.append(statement)
        return real(session, statement)

    monkeypatch.setattr(Connection, "fetch", noted)
    assert stream.reportLatestOffset() == {"dbqueue": "reader:r", **end}
    assert statements == []
    stream.stop()
