"""A compaction that is killed anywhere: each row is once in the lake, and the next run makes of it what it should."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings

from tests.spark.drivers.compacting import POINTS
from tests.spark.lakes import Lake, files_on_disk
from tests.spark.test_compacting import fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]

ALWAYS = {"published"} if settings.TEST_DATABASE == "mariadb" else set()


def _point(name: str) -> Any:
    return name if name in ALWAYS else pytest.param(name, marks=pytest.mark.nightly)


@pytest.mark.parametrize("point", [_point(name) for name in POINTS])
def test_killed_at_any_point_the_lake_is_whole_and_the_next_run_leaves_nothing_lying_about(
    spark: SparkSession, credentials_file: str, worker_env: dict[str, str], tmp_path: Path, point: str
) -> None:
    lake = Lake(spark, credentials_file, tmp_path / "history")
    before = fill(lake, delta=True)

    lake.die("compacting", point, worker_env)
    assert lake.rows == before
    lake.export()
    assert lake.rows == before, "an export goes on, and loses nothing"
    lake.require_log_in_step()

    lake.compact(grace=0.0)

    assert lake.rows == before
    lake.require_log_in_step()
    [snapshot] = lake.manifests
    assert len(snapshot.files) == 8
    assert files_on_disk(lake) == {each.path for each in snapshot.files}
    assert not list(lake.root.glob("_writing/*"))
    assert [path.name for path in (lake.root / "_manifests").iterdir() if path.suffix != ".crc"] == [snapshot.name]
