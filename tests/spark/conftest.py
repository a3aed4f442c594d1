"""One Spark session for all tests of a run, and the credentials file of the test database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.core.management.color import no_style
from django.db import connection

from django_dbqueue.management.pipeline import credentials_of
from django_dbqueue.models import Message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.lakes import Lake


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two threads, whose tasks are tried three times."""
    from django_dbqueue.spark import build_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {"spark.sql.warehouse.dir": str(warehouse), "spark.sql.shuffle.partitions": "2"}
    session = build_session("tests", master="local[2,3]", settings=settings)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def credentials_file(transactional_db: None, tmp_path: Path) -> str:
    """What the option ``credentials_file`` names: the very test database."""
    file = tmp_path / "credentials.json"
    file.write_text(credentials_of("default").to_json())
    file.chmod(0o600)
    return str(file)


@pytest.fixture
def ids_begin_anew(transactional_db: None) -> Iterator[None]:
    """A server counts on from the highest id, so that one far away would reach into every later test."""
    yield
    table = Message._meta.db_table
    connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), [table], reset_sequences=True))


@pytest.fixture
def lake(spark: SparkSession, credentials_file: str, tmp_path: Path) -> Lake:
    """A lake of the test database, not yet there."""
    from tests.spark.lakes import Lake

    return Lake(spark, credentials_file, tmp_path / "history")
