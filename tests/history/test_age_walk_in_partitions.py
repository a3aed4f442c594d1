"""In a history of partitions, those that have expired are dropped, and no row of theirs is deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.exceptions import HistoryGone
from django_dbqueue.history import age_walk
from django_dbqueue.models import ArchivedMessage
from django_dbqueue.models.fields import clock
from django_dbqueue.spark import history_readers
from tests.history.aging import DAY, YEAR, clock_moved, walk
from tests.history.partitioned_history import archive_at, in_partitions, names, one_table
from tests.history.test_age_walk import READERS
from tests.spark.archives import ids

__all__ = ["in_partitions", "one_table"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("in_partitions")]


@pytest.fixture(autouse=True)
def _checked_before(monkeypatch: pytest.MonkeyPatch, in_partitions: None) -> None:
    monkeypatch.setattr(age_walk, "OTHERS_CHECK", 0)
    walk(100 * YEAR)


def aged_at(days: float, *places: int, queue: str = "tests") -> None:
    """Rows with these ids that were archived so many days ago."""
    archive_at(*places)
    ArchivedMessage.objects.filter(pk__in=places).update(
        archived_at=clock("default") - timedelta(days=days), queue=queue
    )


def test_the_first_partitions_go_as_a_whole_and_one_with_a_young_row_stays_whole() -> None:
    aged_at(20, 1, 1_500, 1_999)
    aged_at(20, 2_000, 2_400)
    aged_at(6, 2_500)
    aged_at(1, 3_000)
    with CaptureQueriesContext(connection) as queries:
        walk(7 * DAY)
    assert ids() == [2_000, 2_400, 2_500, 3_000]
    assert "until_2000" not in names()
    assert not [
        each["sql"] for each in queries.captured_queries if each["sql"].startswith("DELETE FROM django_dbqueue_arch")
    ]


def test_what_was_written_by_a_clock_that_was_behind_for_a_moment_makes_no_partition_old() -> None:
    aged_at(1, *range(1_000, 1_990))
    aged_at(400, 1_999)
    aged_at(0, 2_000)
    walk(7 * DAY)
    assert "until_2000" in names()
    assert len(ids()) == 992


def test_a_reader_holds_them_and_a_new_one_begins_behind_them() -> None:
    aged_at(20, 1, 1_999)
    aged_at(1, 2_000)
    history_readers.begin(READERS, "r", history_readers.EARLIEST)
    walk(7 * DAY)
    assert ids() == [1, 1_999, 2_000]
    history_readers.advance(READERS, "r", 1_999)
    walk(7 * DAY)
    assert ids() == [2_000]
    history_readers.resume(READERS, "r", 1_999)
    with pytest.raises(HistoryGone, match="up to 1,999 some were deleted, older than the history_retention"):
        history_readers.resume(READERS, "late", 1)
    assert history_readers.begin(READERS, "new", history_readers.EARLIEST) == 1_999


def test_queues_with_a_shorter_retention_are_deleted_from_them_and_one_that_is_kept_for_ever_keeps_all() -> None:
    aged_at(20, 1, 1_500)
    aged_at(20, 1_999, queue="a")
    aged_at(1, 2_000)
    walk(7 * DAY, a=None)
    assert ids() == [1_999, 2_000]
    assert "until_2000" in names()
    walk(30 * DAY, a=7 * DAY)
    assert ids() == [2_000]
    assert "until_2000" in names()


def test_a_clock_that_jumps_drops_none() -> None:
    aged_at(1, 1, 1_999)
    aged_at(0, 2_000)
    walk(7 * DAY)
    with clock_moved(YEAR):
        walk(7 * DAY)
    assert ids() == [1, 1_999, 2_000]
