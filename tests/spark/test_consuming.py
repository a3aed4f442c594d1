"""The consuming stream on a real Spark: from the queue into Parquet, exactly once, whatever is started again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.db import connection, connections
from pyspark.errors import StreamingQueryException

from django_dbqueue import Envelope
from django_dbqueue.lifecycle.expired_streams import requeue_expired
from django_dbqueue.models import Message, Stream, StreamClaim
from django_dbqueue.models.fields import DbNow, UTCDateTimeField
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.streams.stream_release import release_stream
from tests.patience import patience
from tests.process.conftest import wait_until
from tests.spark.drivers.unlucky import KilledOnce, WithoutHeartbeat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]
QUEUE = "tests"


@pytest.fixture
def stream(spark: SparkSession, credentials_file: str) -> Any:
    """Reads the queue as a stream, with these options besides."""

    def stream(*, format: str = "dbqueue", **options: Any) -> DataFrame:  # noqa: A002 - Spark's word
        given = {"credentials_file": credentials_file, "queue": QUEUE, "stream": "s", **options}
        return spark.readStream.format(format).options(**given).load()

    return stream


def enqueue(count: int) -> list[int]:
    Message.objects.enqueue_many([Envelope({"n": n}) for n in range(count)], queue=QUEUE)
    return list(Message.objects.order_by("pk").values_list("pk", flat=True))


def drain(frame: DataFrame, path: Path) -> None:
    """Run the query until it has all that is due now."""
    query = begin(frame, path)
    assert query.awaitTermination(patience(120))


def begin(frame: DataFrame, path: Path) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(path / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(path / "out"))


def ids_in(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row.id for row in spark.read.parquet(str(path / "out")).select("id").collect())


def test_a_queue_is_drained_into_parquet_exactly_once_and_acked_to_the_last(
    spark: SparkSession, stream: Any, tmp_path: Path
) -> None:
    ids = enqueue(2_500)
    drain(stream(maxMessagesPerTrigger=1_000), tmp_path)
    assert ids_in(spark, tmp_path) == ids
    assert set(Message.objects.values_list("status", "read_count")) == {("y", 1)}
    assert list(StreamClaim.objects.values_list("messages", "state")) == [(1_000, "acked")] * 2 + [(500, "acked")]
    drain(stream(maxMessagesPerTrigger=1_000), tmp_path)  # a restart with nothing to do
    more = enqueue(10)
    drain(stream(), tmp_path)
    assert ids_in(spark, tmp_path) == more


def batches_into(seen: list[list[int]], *, fail: Any = lambda _ids: False) -> Any:
    """A function for foreachBatch that keeps the ids of each batch, unless it is told to fail with them."""

    def keep(frame: DataFrame, _number: int) -> None:
        ids = sorted(row.id for row in frame.select("id").collect())
        if fail(ids):
            raise RuntimeError("the sink said no")
        seen.append(ids)

    return keep


def each_batch(frame: DataFrame, path: Path, function: Any, **trigger: Any) -> StreamingQuery:
    def work(frame: DataFrame, number: int) -> None:
        try:
            function(frame, number)
        finally:
            connections.close_all()  # of the thread that Spark calls from

    writer = frame.writeStream.foreachBatch(work).option("checkpointLocation", str(path / "checkpoint"))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def test_a_batch_that_failed_comes_again_with_the_same_messages(stream: Any, tmp_path: Path) -> None:
    ids = enqueue(30)
    seen: list[list[int]] = []
    tried: list[list[int]] = []

    def fail_once(batch: list[int]) -> bool:
        tried.append(batch)
        return len(tried) == 2

    with pytest.raises(StreamingQueryException, match="the sink said no"):
        each_batch(stream(maxMessagesPerTrigger=10), tmp_path, batches_into(seen, fail=fail_once)).awaitTermination()
    assert set(Message.objects.filter(pk__in=ids[10:20]).values_list("status", flat=True)) == {"run"}
    Message.objects.enqueue("late, and more urgent", queue=QUEUE, priority=9)
    each_batch(stream(maxMessagesPerTrigger=10), tmp_path, batches_into(seen)).awaitTermination()
    assert tried[1] == seen[1] == ids[10:20]
    assert sorted(number for batch in seen for number in batch) == [*ids, ids[-1] + 1]
    assert set(Message.objects.values_list("status", "read_count")) == {("y", 1)}


def test_a_poison_message_ends_dead_and_its_neighbours_come_once(stream: Any, tmp_path: Path) -> None:
    ids = enqueue(20)
    poison = ids[7]
    seen: list[list[int]] = []
    for _ in range(20):
        query = each_batch(stream(max_reads=2), tmp_path, batches_into(seen, fail=lambda batch: poison in batch))
        try:
            query.awaitTermination()
            break
        except StreamingQueryException:
            continue
    assert sorted(number for batch in seen for number in batch) == [each for each in ids if each != poison]
    dead = Message.objects.dead().get()
    assert (dead.pk, dead.read_count) == (poison, 2)
    assert set(Message.objects.exclude(pk=poison).values_list("status", "read_count")) == {("y", 1)}


def test_an_idle_query_acks_its_last_batch_and_rests(stream: Any, tmp_path: Path) -> None:
    enqueue(5)
    seen: list[list[int]] = []
    query = each_batch(stream(), tmp_path, batches_into(seen), processingTime="0 seconds")
    try:
        wait_until(lambda: set(Message.objects.values_list("status", flat=True)) == {"y"}, "the last batch's ack")
        assert query.isActive
        late = Message.objects.enqueue("late", queue=QUEUE)
        wait_until(lambda: [late.pk] in seen, "a message that comes later")
    finally:
        query.stop()


def test_of_two_queries_under_one_name_the_second_is_refused(stream: Any, tmp_path: Path) -> None:
    enqueue(5)
    seen: list[list[int]] = []
    first = each_batch(stream(), tmp_path / "one", batches_into(seen), processingTime="0 seconds")
    try:
        wait_until(lambda: seen, "the first query's batch")
        second = each_batch(stream(), tmp_path / "two", batches_into(seen))
        with pytest.raises(StreamingQueryException, match=r"StreamBusy: The stream 's' is run by .+:\d+"):
            second.awaitTermination()
        assert first.isActive
    finally:
        first.stop()


def test_a_new_checkpoint_gets_again_what_was_not_acked(stream: Any, tmp_path: Path) -> None:
    ids = enqueue(6)
    seen: list[list[int]] = []
    failing = batches_into(seen, fail=lambda batch: ids[3] in batch)
    with pytest.raises(StreamingQueryException):
        each_batch(stream(maxMessagesPerTrigger=3), tmp_path / "one", failing).awaitTermination()
    each_batch(stream(maxMessagesPerTrigger=3), tmp_path / "two", batches_into(seen)).awaitTermination()
    assert seen == [ids[:3], ids[3:]]
    assert set(Message.objects.values_list("status", flat=True)) == {"y"}


def test_a_query_whose_stream_is_released_by_force_fails_and_changes_nothing_more(stream: Any, tmp_path: Path) -> None:
    enqueue(3)

    def release(ids: list[int]) -> bool:
        assert release_stream(DjangoSession("default"), "s", force=True) == 3
        return False

    query = each_batch(stream(), tmp_path, batches_into([], fail=release), processingTime="0 seconds")
    with pytest.raises(StreamingQueryException, match="taken over the stream 's', or somebody released it by hand"):
        query.awaitTermination()
    assert set(Message.objects.values_list("status", "read_count")) == {("n", 0)}


def test_what_is_due_when_an_available_now_query_begins_is_all_that_it_takes(stream: Any, tmp_path: Path) -> None:
    ids = enqueue(4)
    seen: list[list[int]] = []

    def keep_it_coming(batch: list[int]) -> bool:
        Message.objects.enqueue("more", queue=QUEUE)
        return False

    each_batch(stream(maxMessagesPerTrigger=1), tmp_path, batches_into(seen, fail=keep_it_coming)).awaitTermination()
    assert seen == [[number] for number in ids]
    assert Message.objects.ready(QUEUE).count() == 4


def test_a_trigger_that_asks_for_all_at_once_is_refused(stream: Any, tmp_path: Path) -> None:
    enqueue(1)
    with pytest.raises(StreamingQueryException, match="availableNow=True"):
        each_batch(stream(), tmp_path, batches_into([]), once=True).awaitTermination()
    assert Message.objects.ready(QUEUE).count() == 1


def outlast_a_lease(seen: dict[str, Any]) -> Any:
    """A batch that goes on until its lease has ended, or was extended beyond that; and who would take its messages."""

    def work(frame: DataFrame, _number: int) -> None:
        first = StreamClaim.objects.get(state="open").lease_until
        wait_until(
            lambda: StreamClaim.objects.annotate(now=DbNow(output_field=UTCDateTimeField())).get().now > first,
            "the lease that the claim began with to end",
        )
        seen["requeued"] = requeue_expired(Message, DjangoSession("default"))
        seen["rival"] = [message.pk for message in Message.objects.claim(100, queue=QUEUE)]
        seen["sink"] = sorted(row.id for row in frame.select("id").collect())

    return work


def test_a_batch_longer_than_its_lease_keeps_its_messages_by_the_heartbeat(stream: Any, tmp_path: Path) -> None:
    ids = enqueue(50)
    seen: dict[str, Any] = {}
    each_batch(stream(lease=3, on_expired="requeue"), tmp_path, outlast_a_lease(seen)).awaitTermination()
    assert seen == {"requeued": 0, "rival": [], "sink": ids}
    assert set(Message.objects.values_list("status", "read_count")) == {("y", 1)}


def test_without_a_heartbeat_a_rival_gets_all_of_them_and_the_sink_nothing(
    spark: SparkSession, stream: Any, tmp_path: Path
) -> None:
    ids = enqueue(50)
    seen: dict[str, Any] = {}
    spark.dataSource.register(WithoutHeartbeat)
    frame = stream(format="without_heartbeat", lease=3, on_expired="requeue")
    each_batch(frame, tmp_path, outlast_a_lease(seen)).awaitTermination()
    assert seen == {"requeued": 50, "rival": ids, "sink": []}
    assert set(Message.objects.values_list("status", "read_count")) == {("run", 2)}


if settings.TEST_DATABASE in {"mariadb", "mysql", "postgres"}:

    def test_a_query_outlives_the_loss_of_its_session(stream: Any, tmp_path: Path) -> None:
        ids = enqueue(20)
        seen: list[list[int]] = []
        verb = "SELECT pg_terminate_backend(%s)" if settings.TEST_DATABASE == "postgres" else "KILL %s"

        def end_its_session(batch: list[int]) -> bool:
            with connection.cursor() as cursor:
                cursor.execute(verb, [Stream.objects.get().conn_id])
            return False

        each_batch(
            stream(maxMessagesPerTrigger=5), tmp_path, batches_into(seen, fail=end_its_session)
        ).awaitTermination()
        assert [number for batch in seen for number in batch] == ids
        assert set(Message.objects.values_list("status", "read_count")) == {("y", 1)}

    def test_a_worker_that_is_killed_while_it_reads_is_replaced(
        spark: SparkSession, stream: Any, tmp_path: Path
    ) -> None:
        ids = enqueue(40)
        spark.dataSource.register(KilledOnce)
        drain(stream(format="killed_once", numPartitions=2), tmp_path)
        assert ids_in(spark, tmp_path) == ids
        assert set(Message.objects.values_list("status", "read_count")) == {("y", 1)}
