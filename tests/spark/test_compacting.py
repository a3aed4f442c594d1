"""Small files become large ones, and at each moment every reader finds each row once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from django_dbqueue.exceptions import ExportBusy, ExportStopped, InvalidPipeline, LakeDamaged
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.spark import read_lake
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.exclusive import only_exporter
from django_dbqueue.spark.jobs import compact
from django_dbqueue.spark.lake_keeping import Keeper
from django_dbqueue.spark.manifest import LakeFile
from django_dbqueue.spark.manifests import Listed
from tests.spark.archives import NOON, archive, ids, ids_of, rows
from tests.spark.lakes import Lake, files_on_disk

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.django_db(transaction=True)]
QUEUES = ("12", "Q1", "q1", "a:b")


def fill(lake: Lake, *, batches: int = 3, delta: bool = False) -> list[tuple[Any, ...]]:
    """So many batches, each with a file for two days of each queue; returns the rows."""
    for _ in range(batches):
        for queue in QUEUES:
            for day in range(2):
                archive(2, queue=queue, finished_at=NOON + timedelta(days=day), key="k")
    before = rows()
    lake.export(batch_rows=len(before) // batches, delta=delta)
    assert len(files_on_disk(lake)) == batches * len(QUEUES) * 2
    return before


def test_files_of_a_queue_and_day_are_merged_and_the_old_ones_stay_for_their_readers(lake: Lake) -> None:
    before = fill(lake, delta=True)
    reader = read_lake(lake.spark, str(lake.root))

    result = lake.compact()
    assert (result.commits, result.merged, result.written, result.rows, result.deleted) == (1, 24, 8, 48, 0)
    assert lake.rows == before
    lake.require_log_in_step()
    assert '"dataChange":true' not in lake.newest_commit(), "to streams of Delta's readers nothing has changed"
    assert len(read_lake(lake.spark, str(lake.root)).inputFiles()) == 8
    assert ids_of(reader) == [row[0] for row in before], "one that listed the lake before reads on"
    assert lake.compact().commits == 0, "nothing is left to merge"

    assert lake.compact(grace=0.0).deleted == 24
    assert lake.rows == before
    [snapshot] = lake.manifests
    assert files_on_disk(lake) == {each.path for each in snapshot.files}
    assert [path.name for path in (lake.root / "_manifests").iterdir() if path.suffix == ".json"] == [snapshot.name]

    archive(2, queue="Q1", finished_at=NOON)
    before += rows()
    assert lake.export().purged == 2
    lake.require_log_in_step()
    assert (lake.compact(grace=0.0).merged, ids()) == (2, [])
    assert lake.rows == before


def test_files_that_are_large_enough_are_left_and_new_ones_are_not_larger(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fill(lake)
    smallest = min(file.bytes for manifest in lake.manifests for file in manifest.files)
    monkeypatch.setattr(compact, "_MB", smallest)
    monkeypatch.setattr(compact, "AT_ONCE", 1)

    assert (lake.compact(file_mb=1).merged, lake.compact(file_mb=2).merged) == (0, 0)
    result = lake.compact(file_mb=4)
    assert (result.commits, result.merged, result.written) == (8, 24, 8), "a commit for each queue and day"
    assert lake.compact(file_mb=4).merged == 0
    assert lake.rows == before


def test_a_batch_that_is_held_is_purged_after_its_files_were_merged(lake: Lake) -> None:
    archive(6)
    before = rows()
    lake.export(batch_rows=2, keep=True)
    lake.compact(grace=0.0)
    archive(2)

    assert lake.export().purged == 8
    assert [row for row in lake.rows if row in before] == before


def test_only_one_changes_a_lake_and_only_one_that_exists(lake: Lake) -> None:
    with pytest.raises(InvalidPipeline, match="There is no lake"):
        lake.compact()
    fill(lake)
    credentials = credentials_of("default")
    with Connection(credentials) as other, only_exporter(other, credentials), pytest.raises(ExportBusy):
        lake.compact()
    assert lake.compact().merged == 24


def test_files_that_were_damaged_are_not_replaced(lake: Lake) -> None:
    import pyarrow.parquet as parquet

    fill(lake)
    table = parquet.read_table(lake.a_file)
    parquet.write_table(table.slice(1), lake.a_file)
    lake.a_file.with_name(f".{lake.a_file.name}.crc").unlink()

    with pytest.raises(LakeDamaged, match=r"should hold 48 rows .* what was read from them is 47 rows"):
        lake.compact()
    assert [each.sequence for each in lake.manifests] == [0, 0, 0]


def test_one_that_was_overtaken_publishes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was frozen, has lost its lock, and finds its snapshot's number taken."""
    before = fill(lake)
    publish = Keeper.publish

    def overtaken(self: Keeper, found: Listed, named: Sequence[LakeFile], *, batch: int = 0) -> Listed:
        monkeypatch.setattr(Keeper, "publish", publish)
        other = Keeper(self.spark, self.files, self.register)
        other.recover(self.register.position())
        return publish(self, found, named, batch=batch)

    monkeypatch.setattr(Keeper, "publish", overtaken)
    with pytest.raises(ExportStopped, match="snapshot 1 was published in the meantime by another"):
        lake.compact()
    assert lake.rows == before
    assert lake.compact(grace=0.0).merged == 24
    assert lake.rows == before
    assert files_on_disk(lake) == {each.path for each in lake.manifests[0].files}
