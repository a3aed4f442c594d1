"""The consuming stream on a real Spark: from the queue into Parquet, exactly once, whatever is started again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue import Envelope
from django_dbqueue.models import Message, StreamClaim

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]
QUEUE = "tests"


@pytest.fixture
def stream(spark: SparkSession, credentials_file: str) -> Any:
    """Reads the queue as a stream, with these options besides."""

    def stream(**options: Any) -> DataFrame:
        said = {"credentials_file": credentials_file, "queue": QUEUE, "stream": "s", **options}
        return spark.readStream.format("dbqueue").options(**said).load()

    return stream


def enqueue(count: int) -> list[int]:
    Message.objects.enqueue_many([Envelope({"n": n}) for n in range(count)], queue=QUEUE)
    return list(Message.objects.order_by("pk").values_list("pk", flat=True))


def drain(frame: DataFrame, path: Path) -> None:
    """Run the query until it has all that is due now."""
    query = begin(frame, path)
    assert query.awaitTermination(120)


def begin(frame: DataFrame, path: Path) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(path / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(path / "out"))


def ids_in(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row.id for row in spark.read.parquet(str(path / "out")).select("id").collect())


def test_a_queue_is_drained_into_parquet_exactly_once_and_acked_to_the_last(
    spark: SparkSession, stream: Any, tmp_path: Path
) -> None:
    ids = enqueue(2_500)
    drain(stream(maxRowsPerBatch=1_000), tmp_path)
    assert ids_in(spark, tmp_path) == ids
    assert set(Message.objects.values_list("status", "read_count")) == {("y", 1)}
    assert list(StreamClaim.objects.values_list("messages", "state")) == [(1_000, "acked")] * 2 + [(500, "acked")]
    drain(stream(maxRowsPerBatch=1_000), tmp_path)  # a restart with nothing to do
    more = enqueue(10)
    drain(stream(), tmp_path)
    assert ids_in(spark, tmp_path) == more
