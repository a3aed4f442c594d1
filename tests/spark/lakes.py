"""A lake of the tests: exported to, and looked into."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from deltalake import DeltaTable

from django_dbqueue.spark.files import Files
from django_dbqueue.spark.jobs import compact, erase
from django_dbqueue.spark.jobs.compact import CompactResult
from django_dbqueue.spark.jobs.config import CompactConfig, EraseConfig, ExportConfig
from django_dbqueue.spark.jobs.erase import EraseResult
from django_dbqueue.spark.jobs.export import ExportResult, run
from django_dbqueue.spark.lake import read_lake
from django_dbqueue.spark.manifest import Manifest
from django_dbqueue.spark.manifests import manifests
from tests.patience import patience
from tests.spark.archives import ids_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lake:
    """A lake below the test's directory."""

    def __init__(self, spark: SparkSession, credentials_file: str, root: Path) -> None:
        self.spark, self.credentials_file, self.root = spark, credentials_file, root

    def export(self, **fields: Any) -> ExportResult:
        fields = {"older_than": 0.0, **fields}
        return run(self.spark, ExportConfig(credentials_file=self.credentials_file, lake=str(self.root), **fields))

    def compact(self, **fields: Any) -> CompactResult:
        return compact.run(
            self.spark, CompactConfig(credentials_file=self.credentials_file, lake=str(self.root), **fields)
        )

    def erase(self, *keys: str, **fields: Any) -> EraseResult:
        return erase.run(
            self.spark, EraseConfig(credentials_file=self.credentials_file, lake=str(self.root), key=keys, **fields)
        )

    def die(self, job: str, point: str, env: dict[str, str]) -> None:
        """Run the driver of this name to the point at which it kills itself."""
        killed = subprocess.run(
            [sys.executable, "-m", f"tests.spark.drivers.{job}", point, str(self.root), self.credentials_file],
            env=env | {"SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")},
            capture_output=True,
            text=True,
            timeout=patience(300),
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-3_000:]

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
    def delta(self) -> DeltaTable:
        """The table of its Delta log, as its reader opens it."""
        return DeltaTable(str(self.root))

    def require_log_in_step(self) -> None:
        """Fail unless the newest version of the log has the files of the manifests, and all of them are there."""
        files = {unquote(path) for path in self.delta.get_add_actions().column("path").to_pylist()}
        assert files == {each.path for manifest in self.manifests for each in manifest.files}
        assert all((self.root / path).exists() for path in files)

    def newest_commit(self) -> str:
        """The text of the log's newest version."""
        return (self.root / "_delta_log" / f"{self.delta.version():020d}.json").read_text()

    @property
    def a_file(self) -> Path:
        return self.root / self.manifests[0].files[0].path


def files_on_disk(lake: Lake) -> set[str]:
    """The paths of all Parquet files below the root, wherever they are."""
    return {str(path.relative_to(lake.root)) for path in lake.root.rglob("*.parquet")}
