"""What reading a lake costs grows with what is new: snapshots replace manifests, and facts of files choose them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue.exceptions import LakeDamaged
from django_dbqueue.models import ExportBatch, HistoryReader
from django_dbqueue.spark import lake_keeping, read_lake
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.manifest import FOLDER, _seal
from tests.spark.archives import NOON, archive, ids, rows
from tests.spark.lakes import Lake
from tests.spark.made_lakes import MadeLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def folded_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_keeping, "FOLD", 3)


def test_only_files_that_may_have_such_rows_are_given_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    made = MadeLake(tmp_path / "made", batches=30, queues=3, rows=5).make()
    moment, root = made.moment(28), str(made.root)

    late = read_lake(spark, root, since=moment)
    assert (len(late.inputFiles()), late.count()) == (6, 30)
    early = read_lake(spark, root, until=moment - timedelta(microseconds=1), queues=["q1", "q2"])
    assert (len(early.inputFiles()), early.count()) == (56, 280)
    within = read_lake(spark, root, since=moment + timedelta(seconds=1), until=moment + timedelta(seconds=41))
    assert (len(within.inputFiles()), within.count()) == (1, 1)
    assert read_lake(spark, root, queues=["other"]).count() == 0


def test_a_snapshot_replaces_manifests_and_all_goes_on(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(7)
    HistoryReader.objects.create(name="slow", position=ids()[2])
    before = rows()
    lake.export(batch_rows=2)
    assert lake.export().rows == 0
    [snapshot] = lake.manifests
    assert (snapshot.sequence, snapshot.rows, len(snapshot.files)) == (1, 7, 4)
    assert lake.rows == before

    later = archive(2)
    HistoryReader.objects.all().filter(name="slow").update(position=later[0])
    result = lake.export()
    assert (result.rows, result.purged, ids()) == (2, 5, later[1:])
    read, work = list[str](), Files.read

    def noted(self: Files, name: str) -> str:
        read.append(name)
        return work(self, name)

    monkeypatch.setattr(Files, "read", noted)
    assert [each.sequence for each in lake.manifests] == [1, 0]
    assert len(read) == 2, "not one for each batch"


def test_what_a_snapshot_names_is_read_back_before_more_is_purged(lake: Lake) -> None:
    there = archive(6)
    lake.export(batch_rows=2, keep=True)
    lake.export(keep=True)
    [snapshot] = lake.manifests
    damaged = lake.root / snapshot.files[1].path
    damaged.write_bytes(damaged.read_bytes()[:-1])

    with pytest.raises(LakeDamaged, match="bytes instead of"):
        lake.export()
    assert ids() == there[2:], "only what was read back as it was written"


def test_a_snapshot_of_another_database_is_refused(lake: Lake) -> None:
    archive(6)
    lake.export(batch_rows=2, keep=True)
    lake.export(keep=True)
    ExportBatch.objects.all().delete()

    with pytest.raises(
        LakeDamaged, match=r"no record of the manifest snapshot-0000000001.json.*Export to another root"
    ):
        lake.export()


@pytest.mark.parametrize("merged", [False, True])
def test_a_lake_of_format_1_is_read_folded_and_merged(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, merged: bool
) -> None:
    archive(4, finished_at=NOON)
    archive(4, queue="a:b", finished_at=NOON + timedelta(days=1))
    before = rows()
    lake.export(batch_rows=3, keep=True)
    for file in (lake.root / FOLDER).glob("*.json"):
        file.write_text(_in_format_1(json.loads(file.read_text())))
    root = str(lake.root)

    assert lake.rows == before
    assert read_lake(lake.spark, root, since=NOON + timedelta(days=1)).count() == 4
    if merged:
        monkeypatch.setattr(lake_keeping, "FOLD", 100)
        assert lake.compact().merged == 4
    assert lake.export().purged == 8
    assert lake.rows == before
    [snapshot] = lake.manifests
    assert all(each.facts is not None for each in snapshot.files)


def _in_format_1(document: dict[str, Any]) -> str:
    del document["seal"], document["sequence"]
    document |= {"format": 1, "files": [{"path": each["path"], "bytes": each["bytes"]} for each in document["files"]]}
    return json.dumps({**document, "seal": _seal(document)})
