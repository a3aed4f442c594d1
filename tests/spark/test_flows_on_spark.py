"""Tasks, flows and groups in what Spark reads, and what of them a consuming stream claims: only what may run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from django_dbqueue import Envelope, flow
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.spark import task_name
from django_dbqueue.spark.consuming import ClaimStreamReader
from django_dbqueue.spark.lake import read_lake
from django_dbqueue.spark.schemas import MESSAGES
from tests.flows.fans import fan, keep
from tests.tasks.conftest import _tasks, jobs  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.lakes import Lake

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = "tests"
LIMIT = ReadMaxRows(100)


Rows = list[tuple[str, int | None, str | None]]


@pytest.fixture
def stream(credentials_file: str) -> Iterator[Callable[[str], ClaimStreamReader]]:
    """Streams of the queue, by their names."""
    made: list[ClaimStreamReader] = []

    def stream(name: str) -> ClaimStreamReader:
        options = {"credentials_file": credentials_file, "queue": QUEUE, "stream": name}
        made.append(ClaimStreamReader(options, MESSAGES.schema))
        return made[-1]

    yield stream
    for each in made:
        each.stop()


def batch(stream: ClaimStreamReader, start: int = 0) -> Rows:
    """The body, flow and group of what the next claim holds, once what is before it is acked; [] if nothing is due."""
    end = stream.latestOffset({"claim": start}, LIMIT)
    parts = [] if end["claim"] == start else stream.partitions({"claim": start}, end)
    rows = [row for part in parts for found in stream.read(part) for row in found.to_pylist()]
    return [(row["body"], row["flow"], row["group_name"]) for row in rows]


def test_a_stream_claims_nothing_that_waits_in_its_flow(stream: Callable[[str], ClaimStreamReader]) -> None:
    number, one = fan(2), stream("one")
    assert batch(one) == [("0", number, None), ("1", number, None)]
    assert batch(stream("a-rival")) == []
    one.commit({"claim": 1})
    keep()  # as a worker does every 15 seconds
    assert batch(one, 1) == [("last", number, None)]


def test_a_stream_claims_nothing_that_waits_in_its_group_or_for_another_of_its_flow(
    stream: Callable[[str], ClaimStreamReader],
) -> None:
    one = stream("one")
    Message.objects.enqueue("first", queue=QUEUE, group="g")
    with flow("both") as f:
        second = f.enqueue(Envelope("second", group="g"), queue=QUEUE)
        f.enqueue(Envelope("third", group="h"), queue=QUEUE, after=[second])
    assert batch(one) == [("first", None, "g")]
    assert batch(stream("another")) == []
    assert batch(one, 1) == [("second", f.id, "g")]
    assert batch(stream("the-last")) == []
    one.commit({"claim": 2})
    keep()
    assert batch(stream("the-last-one")) == [("third", f.id, "h")]


@pytest.mark.spark
def test_messages_history_and_lake_are_counted_by_flow_and_by_task(
    spark: SparkSession,
    credentials_file: str,
    lake: Lake,
    jobs: Any,  # noqa: F811
) -> None:
    for number in range(3):
        jobs.add.enqueue(number, 1)
    Message.objects.enqueue("no task", queue=QUEUE, headers={"other": {"dbqueue.task": "nested"}})
    Message.objects.create(queue=QUEUE, body="", headers_text="no JSON")
    number = fan(4)
    read = spark.read.format("dbqueue").options(credentials_file=credentials_file)

    def check(frame: DataFrame) -> None:
        by_flow = {row.flow: row["count"] for row in frame.groupBy("flow").count().collect()}
        by_task = {row.task: row["count"] for row in frame.groupBy(task_name()).count().collect()}
        assert by_flow == {None: 5, number: 5}
        assert by_task == {None: 7, "tests.tasks_app.jobs.add": 3}

    check(read.load())
    Message.objects.update(status="y", finished_at="2026-01-01T00:00:00Z", available_at="2026-01-01T00:00:00Z")
    assert Message.objects.all().purge() == 10
    assert ArchivedMessage.objects.filter(flow=number).count() == 5
    check(read.option("source", "history").load())
    lake.export()
    check(read_lake(spark, str(lake.root)))
