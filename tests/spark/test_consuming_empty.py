"""A consuming stream on an empty queue: the most ordinary beginning, and every way to go on from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from django_dbqueue import Envelope
from django_dbqueue.models import Message, StreamClaim
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.streams.ownership import is_running
from django_dbqueue.streams.stream_release import release_stream
from tests.patience import patience
from tests.process.conftest import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.django_db(transaction=True)]
QUEUE = "tests"
NOW = {"availableNow": True}
ALWAYS = {"processingTime": "0 seconds"}
EVERY_TRIGGER: dict[str, dict[str, Any]] = {
    "available now": NOW,
    "as fast as it goes": ALWAYS,
    "by its own default": {},
    "each half second": {"processingTime": "500 milliseconds"},
}


class Seen(list[int]):
    """The ids that came, batch for batch; and how many batches there were, the empty ones among them."""

    batches = 0


@pytest.fixture
def begin(spark: SparkSession, credentials_file: str, tmp_path: Path) -> Callable[..., StreamingQuery]:
    """Start a query on the queue, whose batches go into ``seen``."""

    def begin(
        seen: Seen, trigger: dict[str, Any], *, checkpoint: str = "checkpoint", before: Any = None, **options: str
    ) -> StreamingQuery:
        def keep(frame: DataFrame, _number: int) -> None:
            try:
                if before is not None:
                    before()
                seen.extend(sorted(row.id for row in frame.select("id").collect()))
                seen.batches += 1
            finally:
                connections.close_all()  # of the thread that Spark calls from

        given = {"credentials_file": credentials_file, "queue": QUEUE, "stream": "s", **options}
        writer = spark.readStream.format("dbqueue").options(**given).load().writeStream.foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    return begin


def drain(query: StreamingQuery) -> None:
    assert query.awaitTermination(patience(120))


def enqueue(count: int) -> list[int]:
    """Enqueue, and return the ids: also of those that a running query has claimed already."""
    last = Message.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    Message.objects.enqueue_many([Envelope({"n": n}) for n in range(count)], queue=QUEUE)
    return list(Message.objects.filter(pk__gt=last).order_by("pk").values_list("pk", flat=True))


def all_acked() -> bool:
    return set(Message.objects.values_list("status", "read_count")) == {("y", 1)}


ADMISSION: dict[str, dict[str, str]] = {
    "any number": {},
    "at least": {"minMessagesPerTrigger": "2", "maxMessagesPerTrigger": "3", "maxTriggerDelay": "3600"},
}


@pytest.mark.parametrize("limits", ADMISSION)
@pytest.mark.parametrize("name", EVERY_TRIGGER)
def test_a_query_begins_on_an_empty_queue_and_takes_what_comes_later(
    begin: Callable[..., StreamingQuery], name: str, limits: str
) -> None:
    seen, trigger = Seen(), EVERY_TRIGGER[name]
    query = begin(seen, trigger, **ADMISSION[limits])
    if trigger is NOW:
        drain(query)
        ids = enqueue(3)
        drain(begin(seen, trigger, **ADMISSION[limits]))
        assert all_acked()
    else:
        try:
            wait_until(lambda: seen.batches or query.exception(), "the first batch, which is empty")
            ids = enqueue(3)
            wait_until(lambda: seen == ids or query.exception(), "what came later")
            wait_until(lambda: all_acked() or query.exception(), "its ack")
            assert query.isActive
        finally:
            query.stop()
    assert seen == ids


def test_streams_share_a_queue_and_no_message_comes_to_two(begin: Callable[..., StreamingQuery]) -> None:
    shards = {name: Seen() for name in ("one", "two", "three")}
    given = {"maxMessagesPerTrigger": "4"}
    queries = [begin(seen, ALWAYS, checkpoint=name, stream=name, **given) for name, seen in shards.items()]
    try:
        wait_until(lambda: all(seen.batches for seen in shards.values()), "all of them to run")
        ids = enqueue(60)
        wait_until(lambda: all_acked() or any(each.exception() for each in queries), "all acks")
    finally:
        for query in queries:
            query.stop()
    assert sorted(each for seen in shards.values() for each in seen) == ids


def test_a_checkpoint_whose_first_empty_batch_was_never_committed_works_again(
    begin: Callable[..., StreamingQuery], tmp_path: Path
) -> None:
    """As a kill leaves it, and as versions before left each of them."""
    seen = Seen()
    drain(begin(seen, NOW))
    committed = tmp_path / "checkpoint" / "commits"
    for file in [*committed.glob("*0"), *committed.glob(".*0.crc")]:
        file.unlink()
    last = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(last) == {"claim": 0}
    ids = enqueue(3)
    drain(begin(seen, NOW))
    drain(begin(seen, NOW))
    assert seen == ids
    assert all_acked()


def test_a_queue_that_others_emptied_first_is_an_empty_batch(begin: Callable[..., StreamingQuery]) -> None:
    enqueue(3)
    for message in Message.objects.claim(3, queue=QUEUE):
        message.ack()
    seen = Seen()
    drain(begin(seen, NOW))
    ids = enqueue(2)
    drain(begin(seen, NOW))
    assert seen == ids
    assert all_acked()


def test_a_queue_that_is_emptied_between_plan_and_read_is_an_empty_batch(
    begin: Callable[..., StreamingQuery],
) -> None:
    enqueue(3)
    seen = Seen()

    def drop_all() -> None:
        Message.objects.filter(status="run").drop_all("by an operator")

    drain(begin(seen, NOW, before=drop_all))
    assert seen == []
    assert StreamClaim.objects.get().state == "acked"
    ids = enqueue(2)
    drain(begin(seen, NOW))
    assert seen == ids


def test_a_new_checkpoint_under_an_old_name_begins_on_its_empty_queue(begin: Callable[..., StreamingQuery]) -> None:
    seen = Seen()
    first = enqueue(3)
    drain(begin(seen, NOW))
    drain(begin(seen, NOW, checkpoint="second"))
    assert seen == first
    later = enqueue(2)
    drain(begin(seen, NOW, checkpoint="second"))
    assert seen == first + later
    assert all_acked()


def test_a_new_checkpoint_after_all_was_released_begins_with_what_is_due(
    begin: Callable[..., StreamingQuery],
) -> None:
    ids = enqueue(3)
    seen = Seen()

    def fail() -> None:
        raise RuntimeError("the sink said no")

    with pytest.raises(Exception, match="the sink said no"):
        begin(seen, NOW, before=fail).awaitTermination()
    session = DjangoSession("default")
    wait_until(lambda: not is_running(session, "s"), "the stream's session to end")
    assert release_stream(session, "s") == 3
    drain(begin(seen, NOW, checkpoint="second"))
    drain(begin(seen, NOW))
    assert seen == ids
