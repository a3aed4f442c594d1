"""One Spark session for all tests of a run, and the credentials file of the test database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_dbqueue.management.pipeline import credentials_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


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
