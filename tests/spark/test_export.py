"""What is exported stands in the lake as it stood in the archive, and leaves the archive only after that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import ArchivedMessage, HistoryReader
from django_dbqueue.spark import history_readers
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.lake import read_lake
from tests.commands.running import run
from tests.history.partitioned_history import archive_at, in_partitions, one_table
from tests.spark.archives import NOON, archive, archive_every_outcome, ids, rows
from tests.spark.lakes import Lake

__all__ = ["in_partitions", "one_table"]
pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]


def test_every_outcome_comes_into_the_lake_as_it_was_and_leaves_the_archive(lake: Lake) -> None:
    archive_every_outcome()
    for queue in ("12", "012", "Q1", "q1", "a:b", "true", "2026-01-01", "null"):
        archive(2, queue=queue, finished_at=datetime(2026, 3, 29, 23, 59, 59, 999999, tzinfo=UTC))
    archive(2, finished_at=datetime(1999, 12, 31, 0, 0, tzinfo=UTC), key="k", error="e", claimed_at=None)
    before = rows()

    result = lake.export()

    assert lake.rows == before
    assert rows() == []
    assert (result.batches, result.rows, result.purged, result.held_by) == (1, len(before), len(before), ())
    days = {str(row.day) for row in read_lake(lake.spark, str(lake.root)).where("queue = 'a:b'").collect()}
    assert days == {"2026-03-29"}


def test_batches_are_bounded_and_tile_the_ids(lake: Lake) -> None:
    there = archive(10)
    ArchivedMessage.objects.filter(pk__in=there[2:5]).delete()
    kept = ids()

    result = lake.export(batch_rows=3, keep=True)
    assert (result.batches, result.rows, result.purged) == (3, 7, 0)
    spans = [(each.first_id, each.last_id, each.rows) for each in lake.manifests]
    assert spans == [(1, there[5], 3), (there[5] + 1, there[8], 3), (there[8] + 1, there[9], 1)]
    assert lake.ids == kept == ids()

    archive(5)
    assert lake.export(batch_rows=3, max_batches=1, keep=True).rows == 3
    assert lake.export(batch_rows=3, keep=True).rows == 2
    assert lake.export(batch_rows=3, keep=True).batches == 0, "nothing twice"
    assert lake.ids == ids()

    result = lake.export()
    assert (result.batches, result.purged, ids()) == (0, 12, [])
    assert len(lake.ids) == 12


def test_what_was_archived_lately_stays_and_so_does_all_behind_it(lake: Lake) -> None:
    old = archive(3)
    young = archive(1, archived_at=timezone.now() - timedelta(hours=1))
    behind = archive(2)

    assert lake.export(older_than=7_200.0).rows == 3
    assert (lake.ids, ids()) == (old, young + behind)
    assert lake.export(older_than=1_800.0).rows == 3
    assert (lake.ids, ids()) == (old + young + behind, [])


def test_an_empty_archive_makes_an_empty_lake(lake: Lake) -> None:
    assert lake.export().rows == 0
    assert lake.rows == []


def test_the_slowest_reader_holds_the_purge(lake: Lake) -> None:
    there = archive(10)
    HistoryReader.objects.create(name="slow", position=there[3])
    HistoryReader.objects.create(name="quick", position=there[8])

    result = lake.export(batch_rows=6)
    assert (result.rows, result.purged) == (10, 4)
    assert ids() == there[4:]
    assert [each.name for each in result.held_by] == ["slow", "quick"]
    assert "queue_pipeline forget --reader slow" in str(result)

    HistoryReader.objects.filter(name="slow").update(position=there[7])
    assert lake.export().purged == 4
    assert ids() == there[8:]
    with Connection(credentials_of("default")) as own:
        assert history_readers.forget(own, "slow")
        assert history_readers.forget(own, "quick")
    assert lake.export().purged == 2
    assert lake.ids == there


def test_of_two_lakes_neither_loses_what_the_other_purges(lake: Lake, tmp_path: Path) -> None:
    there = archive(4)
    other = Lake(lake.spark, lake.credentials_file, tmp_path / "other")

    lake.export(max_batches=1, batch_rows=2, keep=True)
    first = other.export()
    assert (first.rows, first.purged) == (4, 2), "what the first lake has not is kept for it"
    assert [each.name.startswith("lake:history:") for each in first.held_by] == [True]
    assert lake.export().purged == 2
    assert (lake.ids, other.ids, ids()) == (there, there, [])


def test_a_lake_is_known_wherever_it_is_moved_to(lake: Lake, tmp_path: Path) -> None:
    there = archive(2)
    lake.export(keep=True)
    lake.root = lake.root.rename(tmp_path / "elsewhere")
    there += archive(2)

    assert lake.export().purged == 4
    assert lake.ids == there


def test_files_are_compressed_and_as_few_as_queues_and_days(lake: Lake) -> None:
    import pyarrow.parquet as parquet

    for queue in ("a", "b"):
        for days in range(3):
            archive(20, queue=queue, finished_at=NOON + timedelta(days=days))
    lake.export()

    [manifest] = lake.manifests
    assert len(manifest.files) == 6
    for file in manifest.files:
        footer = parquet.ParquetFile(lake.root / file.path).metadata
        assert footer.row_group(0).column(0).compression == "ZSTD"
        schema = footer.schema.to_arrow_schema()
        assert str(schema.field("finished_at").type) == "timestamp[us, tz=UTC]"
    assert sum(file.bytes for file in manifest.files) == sum(
        path.stat().st_size for path in lake.root.glob("queue=*/day=*/batch=*/*.parquet")
    )


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no partitions")
def test_what_was_purged_of_a_partitioned_history_goes_with_its_partition(lake: Lake, in_partitions: None) -> None:
    archive_at(1, 2, 1_999, 2_000, 3_500)
    HistoryReader.objects.create(name="slow", position=2)

    result = lake.export(batch_rows=2)
    assert (result.batches, result.rows, result.purged) == (3, 5, 2)
    assert ids() == [1, 2, 1_999, 2_000, 3_500], "of no partition all ids were purged"
    with Connection(credentials_of("default")) as own:
        assert history_readers.begin(own, "late", history_readers.EARLIEST) == 2, "what was purged is not begun with"
        assert history_readers.forget(own, "late")
        assert history_readers.forget(own, "slow")
    assert lake.export().purged == 3
    assert ids() == [3_500]
    assert lake.ids == [1, 2, 1_999, 2_000, 3_500]

    archive(1)
    lake.export()
    assert run("queue_archive", "partition", "--undo", "--yes").code == 0
    assert len(ids()) == 2
    archive(1)
    assert lake.export().purged == 1
    assert ids() == [], "what had waited for its partition to be dropped is deleted"
