"""The account of a job counts what it should, and a lake that is made stands for one that was exported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.db import connection

from benchmarks.scale import filling, jobs, lakes, places
from benchmarks.scale.account import Account, account
from benchmarks.scale.counters import counters
from benchmarks.scale.memory import Memory
from django_dbqueue.models import ArchivedMessage, ExportBatch
from django_dbqueue.spark import read_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ROWS = 2_000


@pytest.mark.once
def test_a_made_lake_stands_for_what_was_exported(spark: SparkSession, tmp_path: Path) -> None:
    assert lakes.make("default", str(tmp_path / "lake"), 2_000_000) == 20
    assert ExportBatch.objects.count() == 4
    begin = filling.BEGIN + 1_500_000 * filling.STEP
    rows = read_lake(spark, str(tmp_path / "lake"), since=begin, until=begin + 500_000 * filling.STEP)
    assert len(rows.inputFiles()) in (5, 6), "one batch of four, and who ended as it did"


if settings.TEST_DATABASE == "mariadb":  # PostgreSQL counts statements only where it was started to

    def test_an_account_counts_what_the_job_did(spark: SparkSession, credentials_file: str, tmp_path: Path) -> None:
        filling.fill("default", ROWS, pytest.fail)
        site = jobs.Site("default", ROWS, spark, tmp_path, credentials_file)
        chosen = {job.name: job for job in jobs.JOBS}
        with counters(places.url_of("default")) as counted:
            memory, found = Memory(spark), dict[str, Account]()
            for name, new in (("export", 500), ("archive", 500), ("erase", 0)):
                found[name] = account(chosen[name], site, new, counted, memory)
            nothing = account(jobs.Job("nothing", lambda *_: 0), site, 0, counted, memory)
        assert {*nothing.counted.values(), nothing.sessions, nothing.file_bytes} == {0}, "what asks is not counted"
        assert found["export"].counted["rows written"] >= 500
        assert 2 * 500 <= found["export"].counted["rows read"] <= 10 * 500
        assert found["export"].file_bytes > 1_000
        assert 2 * 500 <= found["archive"].counted["rows written"] < 4 * 500
        assert found["erase"].counted["rows written"] == 0
        assert found["erase"].counted["rows read"] >= ROWS - 500, "it looks at all that is left"
        assert ArchivedMessage.objects.count() == ROWS - 500, "what was archived is taken away again"
        for one in found.values():
            assert one.sessions >= 1
            assert all(one.counted[name] > 0 for name in ("statements", "rows read", "pages"))
            assert all(one.held[name] > 1 for name in ("driver MB", "heap MB"))
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.userstat")
            assert cursor.fetchone() == (0,)
