"""A reader of the history keeps what it has not passed, goes only forward, and says when rows are gone.

These talk to the stream's reader as Spark does, without a Spark.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import settings
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from django_dbqueue.databases import Statement
from django_dbqueue.exceptions import HistoryGone, InvalidPipeline
from django_dbqueue.history import history_sql
from django_dbqueue.history.history_sql import READERS
from django_dbqueue.lifecycle import archive_sql
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import ArchivedMessage, ExportBatch, HistoryReader
from django_dbqueue.spark import history_readers
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.following import HistoryStreamReader, reader_of
from django_dbqueue.spark.schemas import HISTORY
from tests.concurrency.steps import PATIENCE, waits_for_a_lock
from tests.spark.archives import archive, ids

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def follow(credentials_file: str) -> Iterator[Any]:
    """Makes the reader of a query that begins, or begins again."""
    made: list[HistoryStreamReader] = []

    def follow(reader: str = "r", **options: Any) -> HistoryStreamReader:
        given = {"credentials_file": credentials_file, "source": "history", "reader": reader, **options}
        stream = reader_of({name: str(value) for name, value in given.items()}, HISTORY.schema)
        assert isinstance(stream, HistoryStreamReader)
        made.append(stream)
        return stream

    yield follow
    for stream in made:
        stream.stop()


@pytest.fixture
def own() -> Iterator[Connection]:
    with Connection(credentials_of("default")) as own:
        yield own


def position(name: str = "r") -> int:
    return HistoryReader.objects.get(name=name).position


def read(stream: HistoryStreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    """What the tasks of a batch read, each of them a pickled copy."""
    found: list[int] = []
    for piece in stream.partitions(start, end):
        task = pickle.loads(pickle.dumps(stream))
        for batch in task.read(piece):
            found += batch.column("id").to_pylist()
    return found


def purge_to(last: int) -> None:
    """As an export purges, which has no reader to wait for."""
    ArchivedMessage.objects.filter(pk__lte=last).delete()
    ExportBatch.objects.create(
        lake="lake:l:0", number=1, first_id=1, last_id=last, rows=last, state="purged", purged_to=last
    )


def test_it_is_registered_before_the_first_row_that_is_there(follow: Any) -> None:
    first, *_ = archive(5)

    assert follow().initialOffset() == {"id": first - 1}
    assert position() == first - 1


def test_it_can_begin_behind_the_last_row(follow: Any) -> None:
    *_, last = archive(5)
    stream = follow(startingPosition="latest")

    assert stream.initialOffset() == {"id": last}
    new = archive(2)
    assert stream.latestOffset({"id": last}, ReadMaxRows(10)) == {"id": new[-1]}


def test_of_an_archive_that_was_purged_whole_it_takes_what_comes(follow: Any) -> None:
    *_, last = archive(5)
    purge_to(last)

    for starting in ("earliest", "latest"):
        assert follow(starting, startingPosition=starting).initialOffset() == {"id": last}


def test_a_batch_has_no_more_rows_than_it_may(follow: Any) -> None:
    there = archive(10)
    stream = follow(maxMessagesPerTrigger=4)
    offset = stream.initialOffset()
    limit = stream.getDefaultReadLimit()
    batches = []

    while (end := stream.latestOffset(offset, limit)) != offset:
        batches.append(read(stream, offset, end))
        offset = end

    assert batches == [there[:4], there[4:8], there[8:]]


def test_it_moves_on_when_spark_asks_for_more_and_when_spark_has_committed(follow: Any) -> None:
    there = archive(9)
    stream = follow()
    start = stream.initialOffset()

    stream.latestOffset(start, ReadMaxRows(3))
    assert position() == start["id"], "nothing is committed yet"
    stream.latestOffset({"id": there[2]}, ReadMaxRows(3))
    assert position() == there[2]
    stream.commit({"id": there[5]})
    assert position() == there[5]
    stream.latestOffset({"id": there[2]}, ReadMaxRows(3))
    assert position() == there[5], "never backwards"


def test_available_now_ends_with_what_was_there_when_it_began(follow: Any) -> None:
    there = archive(3)
    stream = follow()
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    archive(3)

    end = stream.latestOffset(start, ReadAllAvailable())
    assert end == {"id": there[-1]}
    assert stream.latestOffset(end, ReadAllAvailable()) == end


def test_a_batch_that_is_requested_again_is_the_same(follow: Any) -> None:
    archive(6)
    stream = follow()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadMaxRows(4))
    first = read(stream, start, end)
    archive(6)

    assert read(follow(), start, end) == first, "in a query that was started again"
    assert read(stream, start, end) == first


def test_readers_are_independent(follow: Any) -> None:
    there = archive(4)
    quick, slow = follow("quick"), follow("slow")
    offsets = quick.initialOffset(), slow.initialOffset()

    quick.commit({"id": there[-1]})
    slow.latestOffset(offsets[1], ReadMaxRows(1))

    assert (position("quick"), position("slow")) == (there[-1], there[0] - 1)


def test_a_restart_whose_rows_were_purged_after_it_was_forgotten_fails(follow: Any, own: Connection) -> None:
    there = archive(6)
    stream = follow()
    stream.initialOffset()
    stream.commit({"id": there[1]})
    assert history_readers.forget(own, "r")
    purge_to(there[3])

    gap = rf"'r'.*after archive id {there[1]:,}, but rows up to {there[3]:,} were purged"
    for again in (
        lambda: follow().latestOffset({"id": there[1]}, ReadMaxRows(3)),
        lambda: follow().partitions({"id": there[1]}, {"id": there[5]}),
    ):
        with pytest.raises(HistoryGone, match=gap):
            again()
    assert not HistoryReader.objects.exists()


def test_a_forgotten_one_whose_rows_are_still_there_goes_on_and_is_kept_again(follow: Any, own: Connection) -> None:
    there = archive(6)
    assert not history_readers.forget(own, "r")

    assert follow().latestOffset({"id": there[1]}, ReadMaxRows(3)) == {"id": there[4]}
    assert position() == there[1]


def test_one_that_is_forgotten_while_it_runs_ends(follow: Any, own: Connection) -> None:
    there = archive(3)
    stream = follow()
    stream.latestOffset(stream.initialOffset(), ReadMaxRows(3))
    history_readers.forget(own, "r")

    with pytest.raises(InvalidPipeline, match="'r' was forgotten while it ran"):
        stream.commit({"id": there[-1]})


def test_a_task_whose_rows_were_purged_before_it_read_them_fails_and_skips_none(follow: Any) -> None:
    there = archive(4)
    stream = follow()
    start = stream.initialOffset()
    [piece] = stream.partitions(start, {"id": there[-1]})
    purge_to(there[1])

    with pytest.raises(HistoryGone, match="'r'"):
        list(stream.read(piece))


def test_a_name_that_starts_over_at_older_rows_holds_them_again(follow: Any) -> None:
    there = archive(4)
    stream = follow()
    stream.initialOffset()
    stream.commit({"id": there[-1]})

    assert follow().initialOffset() == {"id": there[0] - 1}
    assert position() == there[0] - 1


def test_all_readers_are_listed_the_slowest_first(follow: Any, own: Connection) -> None:
    there = archive(4)
    follow("b").initialOffset()
    follow("a", startingPosition="latest").initialOffset()

    slow, quick = history_readers.readers(own)

    assert (slow.name, slow.position, slow.behind) == ("b", there[0] - 1, there[-1] - there[0] + 1)
    assert (quick.name, quick.position, quick.behind) == ("a", there[-1], 0)
    assert slow.begun_at.tzinfo is not None


if settings.TEST_DATABASE != "sqlite":  # which has no sessions to end

    def test_the_session_of_an_idle_reader_may_end(follow: Any) -> None:
        there = archive(2)
        stream = follow()
        start = stream.initialOffset()
        assert stream._session is not None
        stream._session._connection.raw.close()

        assert stream.latestOffset(start, ReadMaxRows(9)) == {"id": there[-1]}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"reader": ""}, "'reader' is empty"),
        ({"reader": "two words"}, "'two words' must be"),
        ({"reader": "lake:mine"}, "'lake:mine' must be"),
        ({"maxMessagesPerTrigger": "0"}, "'maxMessagesPerTrigger' is '0'"),
        ({"maxMessagesPerTrigger": "3", "minMessagesPerTrigger": "4"}, "is 4, but a batch has 3 messages at most"),
        ({"maxTriggerDelay": "5"}, "waits for 'minMessagesPerTrigger', which is not set"),
        ({"startingPosition": "last"}, "'startingPosition' is 'last'"),
        ({"firstId": "7"}, "no option 'firstid'"),
        ({"stream": "s"}, "no option 'stream'"),
        ({"queue": "no such name"}, "'no such name'"),
    ],
)
def test_an_option_that_can_not_be_is_named(follow: Any, options: dict[str, str], error: str) -> None:
    with pytest.raises(InvalidPipeline, match=error):
        follow(**options)


def test_it_has_to_have_a_name(credentials_file: str) -> None:
    with pytest.raises(InvalidPipeline, match="'reader' is missing"):
        reader_of({"credentials_file": credentials_file, "source": "history"}, HISTORY.schema)


if settings.TEST_DATABASE != "sqlite":  # which has one writer, whoever it is

    def test_nothing_begins_during_a_purge(follow: Any, own: Connection) -> None:
        """Who begins to read waits for a purge that has looked at the readers, and begins behind what it deletes."""
        there = archive(4)
        stream = follow()
        session = stream._ask(lambda each: each.fetch(Statement(f"SELECT {each.server.session_id}", ()))[0][0])
        history_readers.under_mutex(own, lambda: None)  # which makes it, the first time
        with ThreadPoolExecutor(1) as aside:
            with own.transaction():
                assert own.fetch(archive_sql.lock_mutex(own.server, READERS, wait=True))
                own.run(history_sql.delete_history(own.server, 0, there[1]))
                begun = aside.submit(stream.initialOffset)
                assert waits_for_a_lock(session, begun)
            assert begun.result(PATIENCE) == {"id": there[1]}
        assert ids() == there[2:]
