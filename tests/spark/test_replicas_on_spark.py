"""A real Spark that reads from a replica while what takes part in it is killed: each row is read once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from django_dbqueue.databases import Statement
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.schemas import HISTORY, MESSAGES
from tests.process.conftest import wait_until
from tests.servers.private import PrivateServer
from tests.servers.replicas import Replica
from tests.spark.archives import ids_of
from tests.spark.drivers.following import BATCH, POINTS, drain
from tests.spark.drivers.unlucky import KilledOnce
from tests.spark.replicated import (
    CAN_BE_HERE,
    archive,
    credentials,  # noqa: F401 - a fixture
    options,  # noqa: F401 - a fixture
    primary,  # noqa: F401 - a fixture
    replica,  # noqa: F401 - a fixture
)
from tests.spark.stopping import PATIENCE, Driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.django_db]
FAULTS = ("the replica is killed", "the primary is killed", "the replica falls behind")
EVERY_CHANGE = {"the replica is killed"} if settings.TEST_DATABASE == "mariadb" else set()

if CAN_BE_HERE:

    def position(credentials: Credentials) -> int:
        with Connection(credentials) as own:
            found = own.fetch(Statement(f"SELECT position FROM {own.server.reader}", ()))
            return int(found[0][0]) if found else 0

    @pytest.mark.parametrize(
        "fault", [pytest.param(each, marks=() if each in EVERY_CHANGE else pytest.mark.nightly) for each in FAULTS]
    )
    def test_a_history_stream_gets_over_what_happens_to_the_servers_in_the_middle_of_a_batch(
        spark: SparkSession, options: dict[str, str], credentials: Credentials, primary: PrivateServer,
        replica: Replica, tmp_path: Path, fault: str,
    ) -> None:  # fmt: skip
        there = archive(credentials, BATCH)
        given = {
            **options,
            "source": "history",
            "reader": "r",
            "outage": str(int(PATIENCE)),
            "maxMessagesPerTrigger": BATCH,
        }
        frame = spark.readStream.format("dbqueue").options(**given).load().select("id")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start(str(tmp_path / "out"))
        try:
            wait_until(lambda: position(credentials) == there[-1] or query.exception(), "the first batch")
            (replica.kill if fault == "the replica is killed" else replica.hold)()
            there = archive(credentials, 2 * BATCH)
            begun = tmp_path / "checkpoint" / "offsets" / "1"
            wait_until(lambda: begun.exists() or query.exception(), "the batch that is planned on the replica")
            if fault == "the primary is killed":
                primary.kill()
                primary.start()
            (replica.start if fault == "the replica is killed" else replica.go_on)()
            wait_until(lambda: position(credentials) == there[-1] or query.exception(), "the last batch")
            assert query.isActive, query.exception()
        finally:
            query.stop()
        assert ids_of(spark.read.parquet(str(tmp_path / "out"))) == there

    @pytest.mark.nightly
    @pytest.mark.parametrize("source", ["messages", "history"])
    def test_a_worker_that_is_killed_while_it_reads_a_batch_is_replaced(
        spark: SparkSession, options: dict[str, str], credentials: Credentials, source: str
    ) -> None:
        there = archive(credentials, 40)
        with Connection(credentials) as own:
            copied = "queue, due_at, priority, read_count, crashes, body, content_type, created_at"
            own.run(
                Statement(
                    f"INSERT INTO {MESSAGES.table} (id, status, available_at, {copied}) "
                    f"SELECT id, 'n', due_at, {copied} FROM {HISTORY.table}",
                    (),
                )
            )
        spark.dataSource.register(KilledOnce)
        given = {**options, "source": source, "maxReplicaLag": "0", "numPartitions": "2"}
        assert ids_of(spark.read.format("killed_once").options(**given).load()) == there

    @pytest.mark.nightly
    def test_a_worker_that_is_killed_while_it_reads_for_a_stream_is_replaced(
        spark: SparkSession, options: dict[str, str], credentials: Credentials, tmp_path: Path
    ) -> None:
        there = archive(credentials, 4 * BATCH)
        spark.dataSource.register(KilledOnce)
        drain(spark, "killed_once", tmp_path, {**options, "numPartitions": "2"})
        assert ids_of(spark.read.parquet(str(tmp_path / "out"))) == there

    @pytest.mark.nightly
    @pytest.mark.parametrize("point", POINTS)
    def test_a_kill_of_the_jvm_and_the_driver_doubles_and_loses_nothing(
        spark: SparkSession, options: dict[str, str], credentials: Credentials, tmp_path: Path, point: str
    ) -> None:
        there = archive(credentials, 6 * BATCH)
        driver = Driver("following", tmp_path, json.dumps(options), point, str(there[3 * BATCH - 1]))
        try:
            assert driver.process.wait(PATIENCE) != 0, driver.log.read_text()
        finally:
            if not driver.is_dead():
                driver.kill()
                driver.process.wait()
        assert position(credentials) == there[3 * BATCH - 1], driver.log.read_text()
        drain(spark, "dbqueue", tmp_path, options)
        assert ids_of(spark.read.parquet(str(tmp_path / "out"))) == there
        assert position(credentials) == there[-1]
