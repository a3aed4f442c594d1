"""An export that is killed anywhere: the next run makes of it what one that was never killed would have made."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings

from django_dbqueue.models import ExportBatch
from django_dbqueue.spark.lake import read_lake
from tests.spark.archives import NOON, archive, ids, rows
from tests.spark.drivers.exporting import BATCH_ROWS, CHUNK, POINTS
from tests.spark.lakes import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]

ALWAYS = {"published", "deleting"} if settings.TEST_DATABASE == "mariadb" else set()
DAYS = 5
ROWS = 4 * DAYS * 8
PURGED = dict.fromkeys(POINTS, BATCH_ROWS) | {"deleting": CHUNK, "purged": 2 * BATCH_ROWS}
"""Rows that have left the archive before the kill, which is at the second batch, or at the second DELETE."""
NOTED = {"published", "verified", "purged"}
"""Where the second batch was in the lake already; else the next run makes one batch of it and the third."""


def _point(name: str) -> Any:
    return name if name in ALWAYS else pytest.param(name, marks=pytest.mark.nightly)


@pytest.mark.parametrize("point", [_point(name) for name in POINTS])
def test_killed_at_any_point_each_row_is_once_in_the_lake_after_the_next_run(
    spark: SparkSession, credentials_file: str, worker_env: dict[str, str], tmp_path: Path, point: str
) -> None:
    for _ in range(8):
        for queue in ("12", "Q1", "q1", "a:b"):
            for day in range(DAYS):
                archive(1, queue=queue, finished_at=NOON + timedelta(days=day))
    before = rows()
    lake = Lake(spark, credentials_file, tmp_path / "history")

    lake.die("exporting", point, worker_env)
    assert len(ids()) == ROWS - PURGED[point]
    there = Counter(row.id for row in read_lake(spark, str(lake.root)).collect())
    assert set(there.values()) <= {1}
    assert set(there) | set(ids()) == {row[0] for row in before}, "none is lost meanwhile"

    result = lake.export()

    assert lake.rows == before
    assert (ids(), result.purged) == ([], ROWS - PURGED[point])
    named = {lake.root / file.path for manifest in lake.manifests for file in manifest.files}
    assert named == set(lake.root.glob("queue=*/day=*/batch=*/*.parquet")), "nothing else was left lying about"
    assert not list(lake.root.glob("_writing/*"))
    assert ExportBatch.objects.filter(state="purged").count() == len(lake.manifests) == 2 + (point in NOTED)
    lake.require_log_in_step()
    assert lake.export().rows == 0
