"""Workers keep the history's partitions: some stand ahead, what was purged is dropped, and nobody waits for that."""

from __future__ import annotations

import pytest

from django_dbqueue.databases.partitions_sql import until
from django_dbqueue.history import partitioned, partitions
from django_dbqueue.models import ArchivedMessage
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.maintenance import Maintenance
from tests.commands.running import run
from tests.history.partitioned_history import SESSION, archive_at, in_partitions, names, one_table, record_purged
from tests.spark.archives import ids

__all__ = ["in_partitions", "one_table"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("in_partitions")]


@pytest.mark.parametrize(
    ("newest", "added"),
    [
        (0, []),
        (1_999, []),
        (2_000, [5_000]),
        (3_999, [5_000, 6_000]),
        (4_000, [5_000, 6_000, 7_000]),
        (9_500, [10_000, 11_000, 12_000]),
    ],
)
def test_two_stand_behind_the_one_that_is_filled(newest: int, added: list[int]) -> None:
    assert list(partitions.next_bounds(4_000, 1_000, newest)) == added


def test_they_are_added_as_rows_come_and_the_rest_is_split() -> None:
    archive_at(1, 2_100)
    partitioned.keep(SESSION)
    assert names() == [*map(until, (2_000, 3_000, 4_000, 5_000)), "rest"]
    archive_at(7_100, 7_200)
    there = ids()
    partitioned.keep(SESSION)
    assert names() == [*map(until, (2_000, 3_000, 4_000, 5_000, 8_000, 9_000, 10_000)), "rest"]
    assert ids() == there
    partitioned.keep(SESSION)
    assert len(names()) == 8, "nothing more is to be done"


def test_a_large_rest_is_split_by_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "SPLIT_AT_ONCE", 1)
    archive_at(7_100, 7_200)
    partitioned.keep(SESSION)
    assert names() == [*map(until, (2_000, 3_000, 4_000)), "rest"]
    assert run("queue_archive", "partition").code == 0
    assert names() == [*map(until, (2_000, 3_000, 4_000, 8_000, 9_000, 10_000)), "rest"]
    assert ids() == [7_100, 7_200]
    assert run("queue_archive", "partition").code == 3


def test_what_was_purged_is_dropped_but_nothing_beyond() -> None:
    archive_at(1_999, 2_000, 2_999, 3_000)
    record_purged(2_998)
    partitioned.keep(SESSION)
    assert ids() == [2_000, 2_999, 3_000]
    record_purged(2_999)
    partitioned.keep(SESSION)
    assert ids() == [3_000]
    record_purged(3_000)
    Maintenance(session_of("default"), ("tests",))._tidy()
    assert ids() == [3_000], "3,000 to 3,999 are not all purged"
    archive_at(4_000)
    record_purged(3_999)
    Maintenance(session_of("default"), ("tests",))._tidy()
    assert ids() == [4_000], "a worker does it"


def test_the_partition_that_knows_the_next_id_is_not_dropped() -> None:
    archive_at(1_999)
    record_purged(1_999)
    partitioned.keep(SESSION)
    assert "until_2000" in names()
    archive_at(2_000)
    partitioned.keep(SESSION)
    assert "until_2000" not in names()
    ArchivedMessage.objects.all().delete()
    archive_at(2_001)


def test_whoever_reads_is_not_disturbed(other_connection: object) -> None:
    archive_at(1_999, 2_000)
    record_purged(1_999)
    with other_connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute("BEGIN")
        cursor.execute("SELECT COUNT(*) FROM django_dbqueue_archivedmessage")
        assert cursor.fetchone() == (2,)
        partitioned.keep(SESSION)
        assert ids() == [1_999, 2_000]
        cursor.execute("ROLLBACK")
    partitioned.keep(SESSION)
    assert ids() == [2_000]


def test_one_at_a_time(other_connection: object) -> None:
    archive_at(1_999, 2_000)
    record_purged(1_999)
    lock = SESSION.server.partitions.take_lock()  # type: ignore[union-attr]
    with other_connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute("BEGIN")
        cursor.execute(lock.sql, lock.params)
        partitioned.keep(SESSION)
        assert ids() == [1_999, 2_000]
        refused = run("queue_archive", "partition")
        assert (refused.code, "Somebody else is changing" in refused.err) == (1, True)
