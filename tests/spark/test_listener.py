"""What a listener of a Spark session tells the operators: rate, backlog, the last progress, failures."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from django_dbqueue import Envelope
from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import HistoryReader, Message, Stream, StreamProgress
from django_dbqueue.spark import QueueListener, listener
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.history_readers import forget
from django_dbqueue.spark.jobs import list_streams, readers
from django_dbqueue.spark.jobs.config import ReadersConfig, StreamsConfig
from django_dbqueue.streams.stream_release import forget_stream
from tests.process.conftest import wait_until
from tests.spark.archives import archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = "tests"


@pytest.fixture
def heard(credentials_file: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[QueueListener]:
    """A listener that writes without much delay."""
    monkeypatch.setattr(listener, "WRITES_EVERY", 0.05)
    made = QueueListener(credentials_file=credentials_file)
    yield made
    made.close()


def row(name: str) -> StreamProgress:
    return StreamProgress.objects.get(name=name)


def event(**source: Any) -> QueryProgressEvent:
    """A batch's event, as Spark's JSON has it."""
    given = {"description": "a source", "startOffset": None, "endOffset": None, "latestOffset": None}
    given |= {"numInputRows": 0, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0, "metrics": {}}
    progress = {
        "id": "4779037e-56db-40e7-9179-aa41aa87144a", "runId": "4779037e-56db-40e7-9179-aa41aa87144b", "name": None,
        "timestamp": "2026-11-25T00:00:00Z", "batchId": 1, "batchDuration": 1, "durationMs": {}, "eventTime": {},
        "stateOperators": [], "sources": [given | source], "observedMetrics": {},
        "sink": {"description": "a sink", "numOutputRows": 0, "metrics": {}},
    }  # fmt: skip
    return QueryProgressEvent(StreamingQueryProgress.fromJson(progress))


def of_stream(ready: int, rows: int, waiting: int = 0) -> QueryProgressEvent:
    latest = json.dumps({"dbqueue": "stream:s", "ready": ready, "waiting": waiting, "capped": False})
    return event(latestOffset=latest, endOffset='{"claim": 1}', numInputRows=rows, processedRowsPerSecond=7.5)


@pytest.mark.spark
def test_operators_see_what_the_queries_of_a_session_do(
    spark: SparkSession, credentials_file: str, heard: QueueListener, tmp_path: Path
) -> None:
    Message.objects.enqueue_many([Envelope(n) for n in range(7)], queue=QUEUE)

    def run(fail: bool = False, **options: str) -> None:
        def work(frame: Any, _number: int) -> None:
            frame.collect()
            if fail:
                raise RuntimeError("the sink said no")

        given = {"credentials_file": credentials_file, "maxMessagesPerTrigger": "3", **options}
        frame = spark.readStream.format("dbqueue").options(**given).load()
        writer = frame.writeStream.foreachBatch(work)
        place = str(tmp_path / options.get("source", "messages"))
        writer.option("checkpointLocation", place).trigger(availableNow=True).start().awaitTermination()

    spark.streams.addListener(heard)
    try:
        run(queue=QUEUE, stream="s")
        wait_until(lambda: StreamProgress.objects.filter(name="stream:s", messages=7).exists(), "all figures")
        seen = row("stream:s")
        assert (seen.backlog, seen.failures, seen.is_failing) == (0, 0, False)
        assert seen.rate > 0
        Message.objects.enqueue("more", queue=QUEUE)
        with pytest.raises(StreamingQueryException, match="the sink said no"):
            run(fail=True, queue=QUEUE, stream="s")
        wait_until(lambda: row("stream:s").failures, "the failure")
        assert (row("stream:s").error, row("stream:s").is_failing) == ("RuntimeError: the sink said no", True)
        archive(4)
        run(source="history", reader="r")
        wait_until(lambda: StreamProgress.objects.filter(name="reader:r", messages=4).exists(), "the reader's figures")
        assert row("reader:r").backlog == 0
    finally:
        spark.streams.removeListener(heard)
    Message.objects.enqueue_many([Envelope(n) for n in range(2)], queue=QUEUE)
    output = str(list_streams.run(None, StreamsConfig(credentials_file=credentials_file)))
    assert "2 ready and 0 waiting messages left" in output
    assert "7 messages read, the last batch at 20" in output
    assert "failed 1 times" in output
    assert "4 messages read" in str(readers.run(None, ReadersConfig(credentials_file=credentials_file)))


def test_what_could_not_be_written_is_written_later_and_no_event_waits_for_it(
    heard: QueueListener, caplog: pytest.LogCaptureFixture
) -> None:
    table = StreamProgress._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {table}_away")
        try:
            heard.onQueryProgress(of_stream(ready=5, rows=3))
            with caplog.at_level(logging.WARNING, "django_dbqueue.spark"):
                wait_until(lambda: "could not be written, and will be later" in caplog.text, "a write that failed")
            heard.onQueryProgress(of_stream(ready=1, waiting=2, rows=4))
        finally:
            cursor.execute(f"ALTER TABLE {table}_away RENAME TO {table}")
    wait_until(lambda: StreamProgress.objects.filter(messages=7, backlog=3, rate=7.5).exists(), "both batches")


def test_other_sources_are_left_out_whatever_their_offsets_are(heard: QueueListener) -> None:
    for offset in (None, "42", "not JSON", "[1]", '{"topic": {"0": 5}}', '{"dbqueue": {"0": 5}}'):
        heard.onQueryProgress(event(latestOffset=offset, endOffset=offset, numInputRows=5))
    heard.onQueryProgress(of_stream(ready=0, rows=1))
    wait_until(lambda: StreamProgress.objects.exists(), "the one that is ours")
    assert StreamProgress.objects.get().name == "stream:s"


def test_the_end_of_the_program_writes_what_is_left(credentials_file: str) -> None:
    heard = QueueListener(credentials_file=credentials_file)
    heard.onQueryProgress(of_stream(ready=0, rows=2))
    heard.close()
    assert row("stream:s").messages == 2


def test_who_is_forgotten_leaves_no_figures() -> None:
    figures = {"messages": 1, "rate": 1, "backlog": 0, "backlog_capped": 0, "failures": 0}
    for name in ("reader:r", "stream:s"):
        StreamProgress.objects.create(name=name, query_id="", progressed_at="2026-01-01T00:00:00Z", **figures)
    HistoryReader.objects.create(name="r", position=1)
    Stream.objects.create(name="s", queue=QUEUE, on_expired="hold", lease_seconds=60)
    with Connection(credentials_of("default")) as own:
        assert forget(own, "r")
        forget_stream(own, "s")
    assert not StreamProgress.objects.exists()


def test_it_needs_credentials_and_no_secret(credentials_file: str) -> None:
    with pytest.raises(InvalidPipeline, match="credentials are missing"):
        QueueListener()
    with pytest.raises(InvalidPipeline, match="no option 'stream' here"):
        QueueListener(credentials_file=credentials_file, stream="s")


def test_of_an_exception_its_own_line_is_kept() -> None:
    java = "org.apache.spark.SparkException: aborted: Traceback (most recent call last):\n  x\nValueError: no\n\n"
    assert listener.gist_of(java + "\tat org.apache.spark.Api(Api.scala)\n\tat more") == "ValueError: no"
    assert listener.gist_of("") == ""
