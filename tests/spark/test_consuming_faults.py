"""Kills of everything that takes part in a consuming stream, at every point: each message is in the sink once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from django_dbqueue import Envelope
from django_dbqueue.models import Message
from tests.spark.drivers.consuming import BATCH, POINTS, QUEUE, drain
from tests.spark.stopping import PATIENCE, Driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ROWS = 10 * BATCH
FILES = ("out/_spark_metadata/5", "checkpoint/offsets/8", "checkpoint/commits/7")
"""What the sink and the checkpoint write of a batch; when it appears, the JVM and the driver are killed."""
EVERY_CHANGE = {"in a task", "after the ack"} if settings.TEST_DATABASE == "mariadb" else set()

if settings.TEST_DATABASE in {"mariadb", "mysql"}:

    def at(points: tuple[str, ...]) -> list[object]:
        return [pytest.param(each, marks=() if each in EVERY_CHANGE else pytest.mark.nightly) for each in points]

    @pytest.fixture
    def ids() -> list[int]:
        Message.objects.enqueue_many([Envelope({"n": n}) for n in range(ROWS)], queue=QUEUE)
        return list(Message.objects.order_by("pk").values_list("pk", flat=True))

    @pytest.fixture
    def begun() -> Iterator[list[Driver]]:
        drivers: list[Driver] = []
        yield drivers
        for driver in drivers:
            if not driver.is_dead():
                driver.kill()
            driver.process.wait()

    def finish(spark: SparkSession, place: Path, credentials_file: str, ids: list[int]) -> None:
        """Start the query again from its checkpoint, and find every message in the sink once, and acked."""
        assert set(Message.objects.values_list("status", flat=True)) != {"y"}, "it was killed too late to show anything"
        drain(spark, "dbqueue", place, credentials_file)
        found = spark.read.parquet(str(place / "out")).select("id")
        assert sorted(row.id for row in found.collect()) == ids
        assert set(Message.objects.values_list("status", "read_count")) == {("y", 1)}

    @pytest.mark.parametrize("point", at(POINTS))
    def test_a_kill_of_the_jvm_and_the_runner_doubles_and_loses_nothing(
        spark: SparkSession, credentials_file: str, ids: list[int], tmp_path: Path, begun: list[Driver], point: str
    ) -> None:
        begun.append(driver := Driver("consuming", tmp_path, credentials_file, point))
        assert driver.process.wait(PATIENCE) != 0, driver.log.read_text()
        finish(spark, tmp_path, credentials_file, ids)

    @pytest.mark.parametrize("file", at(FILES))
    def test_a_kill_of_the_jvm_and_the_driver_doubles_and_loses_nothing(
        spark: SparkSession, credentials_file: str, ids: list[int], tmp_path: Path, begun: list[Driver], file: str
    ) -> None:
        begun.append(driver := Driver("consuming", tmp_path, credentials_file, ""))
        end = time.monotonic() + PATIENCE
        while not (tmp_path / file).exists():
            assert not driver.is_dead(), driver.log.read_text()
            assert time.monotonic() < end, f"{file} never appeared: {driver.log.read_text()}"
            time.sleep(0.005)
        driver.kill()
        driver.process.wait()
        finish(spark, tmp_path, credentials_file, ids)
