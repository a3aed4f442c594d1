"""A lake of the tests: exported to, and looked into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_dbqueue.spark.files import Files
from django_dbqueue.spark.jobs.config import ExportConfig
from django_dbqueue.spark.jobs.export import ExportResult, run
from django_dbqueue.spark.lake import manifests, read_lake
from tests.spark.archives import ids_of, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from django_dbqueue.spark.manifest import Manifest


class Lake:
    """A lake below the test's directory."""

    def __init__(self, spark: SparkSession, credentials_file: str, root: Path) -> None:
        self.spark, self.credentials_file, self.root = spark, credentials_file, root

    def export(self, **said: Any) -> ExportResult:
        said = {"older_than": 0.0, **said}
        return run(self.spark, ExportConfig(credentials_file=self.credentials_file, lake=str(self.root), **said))

    @property
    def ids(self) -> list[int]:
        return ids_of(read_lake(self.spark, str(self.root)))

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return rows_of(read_lake(self.spark, str(self.root)))

    @property
    def manifests(self) -> list[Manifest]:
        return manifests(Files(self.spark, str(self.root)))

    @property
    def a_file(self) -> Path:
        return self.root / self.manifests[0].files[0].path
