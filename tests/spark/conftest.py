"""One Spark session for all tests of a run, and the credentials file of the test database."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.core.management.color import no_style
from django.db import connection

from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import Message
from tests.patience import patience

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pytest_django import DjangoDbBlocker

    from tests.spark.lakes import Lake

# A test's JVM lives for seconds: half of its processor time went into compiling for the long run. Java then keeps only
# 48 MB for compiled code, which the one session that all tests share filled at times, and died; 240 MB are its default.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A local session of two threads, whose tasks are tried three times; it ends before the database does."""
    from django_dbqueue.spark import build_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {"spark.sql.warehouse.dir": str(warehouse), "spark.sql.shuffle.partitions": "2"}
    session = build_session("tests", master="local[2,3]", settings=settings)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    with django_db_blocker.unblock():
        wait_until_alone()


def wait_until_alone() -> None:
    """Wait for the sessions of Spark's Python processes to end: PostgreSQL drops no database that has any."""
    if connection.vendor != "postgresql":
        return
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    deadline = time.monotonic() + patience(60)
    with connection.cursor() as cursor:
        while cursor.execute(others).fetchone() != (0,):
            assert time.monotonic() < deadline, "Spark's sessions have not ended"
            time.sleep(0.05)


@pytest.fixture
def credentials_file(transactional_db: None, tmp_path: Path) -> str:
    """What the option ``credentials_file`` names: the very test database."""
    file = tmp_path / "credentials.json"
    file.write_text(credentials_of("default").to_json())
    file.chmod(0o600)
    return str(file)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, with nothing else in it."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def ids_start_over(transactional_db: None) -> Iterator[None]:
    """A server counts on from the highest id, so that one far away would reach into every later test."""
    yield
    table = Message._meta.db_table
    connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), [table], reset_sequences=True))


@pytest.fixture
def lake(spark: SparkSession, credentials_file: str, tmp_path: Path) -> Lake:
    """A lake of the test database, not yet there."""
    from tests.spark.lakes import Lake

    return Lake(spark, credentials_file, tmp_path / "history")
