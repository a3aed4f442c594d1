"""Export: rows of the archive into a lake, batch by batch; purged once their manifest was verified.

A batch is a contiguous range of archive ids. It is planned, written under a number that no other try has, read back,
published by its manifest, recorded in the database, and purged. The manifest decides: if the run is killed, what was
written before it is a leftover, and what was to be done after it is done by the next run. The manifest's name is the
batch's first id, so ids are published only once, even by an export that continued after losing its lock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django_dbqueue.exceptions import DBQueueError, ExportStopped, LakeDamaged
from django_dbqueue.spark import history_readers
from django_dbqueue.spark.batches import Batch, Register
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.exclusive import only_exporter, require_lock
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.jobs.arguments import Progress, quiet
from django_dbqueue.spark.jobs.config import ExportConfig
from django_dbqueue.spark.lake import (
    COLUMNS,
    PARTITIONED_BY,
    first_line,
    hexadecimal,
    identity,
    manifest_names,
    read_manifest,
    summing,
    verify,
    written_files,
)
from django_dbqueue.spark.manifest import FOLDER, Manifest, name_of
from django_dbqueue.spark.spark_session import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    # INT96, the default, is not a timestamp to anything except Spark
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_DAY = "date_from_unix_date(CAST(floor(unix_micros(finished_at) / 86400000000) AS INT))"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export has done: batches and rows that were added to the lake, and rows that left the archive.

    ``held_by`` are the readers of the history that kept it from purging more.
    """

    lake: str
    batches: int = 0
    rows: int = 0
    files: int = 0
    purged: int = 0
    held_by: tuple[history_readers.Reader, ...] = ()

    def __str__(self) -> str:
        held = "".join(
            "\n"
            f"The reader {each.name!r} keeps rows after archive id {each.position:,} from being purged. If it will "
            f"not come back: queue_pipeline forget --reader {each.name}"
            for each in self.held_by
        )
        return (
            f"{self.lake}: {self.rows:,} rows in {self.batches:,} batches and {self.files:,} files exported, "
            f"{self.purged:,} purged from the archive.{held}"
        )


def run(spark: SparkSession, config: ExportConfig, progress: Progress = quiet) -> ExportResult:
    """Export what was archived long enough ago, and purge it; ExportBusy, ExportStopped or LakeDamaged say why not.

    What was verified before one of them was raised stays exported, and nothing else was purged.
    """
    credentials = config.load_credentials()
    session = spark.newSession()
    register(session)
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    files = Files(session, config.lake)
    with Connection(credentials) as connection, only_exporter(connection, credentials):
        try:
            lake = identity(files, make=True)
        except DBQueueError:
            raise
        except Exception as error:
            raise ExportStopped(
                f"The lake's root {files.root} can't be written to: {first_line(error)}. Nothing was exported or "
                "purged. Make the directory writable for the user of Spark's driver and executors."
            ) from error
        assert lake is not None
        return Export(session, config, files, Register(connection, lake), progress).run()


@dataclass(frozen=True, slots=True)
class Export:
    """One run, under the lock."""

    spark: SparkSession
    config: ExportConfig
    files: Files
    register: Register
    progress: Progress

    def run(self) -> ExportResult:
        """Finish what a killed run has left, then export batch by batch."""
        result = ExportResult(self.files.root)
        position = self.recover(self.register.begin())
        if not self.config.keep:
            for batch in self.register.exported():
                result = replace(result, purged=result.purged + self.purge(batch, result.purged))
        cutoff = self.register.cutoff(self.config.older_than)
        while result.batches != self.config.max_batches:
            planned = self.register.plan(position, self.config.batch_rows, cutoff)
            if planned is None:
                break
            manifest = self.write(planned)
            self.publish(planned, manifest)
            position = planned.last_id
            result = replace(
                result,
                batches=result.batches + 1,
                rows=result.rows + manifest.rows,
                files=result.files + len(manifest.files),
            )
            self.progress("rows exported", result.rows, None)
            if not self.config.keep:
                result = replace(result, purged=result.purged + self.purge(planned, result.purged, checked=True))
        return replace(result, held_by=() if self.config.keep else self.held_by(position))

    def recover(self, position: int) -> int:
        """Record what a killed run has published, and clear what it has left; return how far the lake has come."""
        name = self.register.compare(manifest_names(self.files), position)
        if name is not None:
            manifest = read_manifest(self.files, name)
            batch = self.register.adopt(manifest)
            verify(self.spark, self.files, manifest)
            self.register.verified(batch)
            self.clear(batch)
            position = batch.last_id
        for leftover in self.files.names():
            if leftover.startswith(".spark-staging"):
                self.files.delete(leftover)
        for leftover in self.files.names(FOLDER):
            if leftover.endswith(".tmp"):
                self.files.delete(f"{FOLDER}/{leftover}")
        return position

    def write(self, batch: Batch) -> Manifest:
        """Write a batch's files, read them back, and return their manifest."""
        from pyspark.sql import Observation

        rows = self.rows(batch)
        seen = Observation(f"batch {batch.number}")
        frame = rows.hint("rebalance", "queue", "day").observe(seen, *summing())
        try:
            self.save(frame, batch)
        except Exception as error:
            raise ExportStopped(
                f"The {batch} could not be written to {self.files.root}: {first_line(error)}. None of it was purged; "
                "the next run writes it again."
            ) from error
        observed = seen.get
        if observed["rows"] != batch.rows:
            raise ExportStopped(
                f"The {batch} had {batch.rows:,} rows when it was planned, and {observed['rows']:,} when it was "
                "read: something else deletes rows from the archive. None of it was purged; the next run plans it "
                "again."
            )
        written = written_files(self.files, batch.number)
        manifest = Manifest(
            lake=self.register.lake,
            batch=batch.number,
            first_id=batch.first_id,
            last_id=batch.last_id,
            rows=batch.rows,
            checksum=hexadecimal(observed["checksum"]),
            columns=COLUMNS,
            files=written,
            written_at=self.register.now(),
        )
        self.files.sync(each.path for each in written)
        verify(self.spark, self.files, manifest)
        return manifest

    def rows(self, batch: Batch) -> DataFrame:
        """Return a batch's rows in the form of the lake."""
        source = self.spark.read.format("dbqueue").options(**self.config.options)
        frame = source.options(source="history", firstId=batch.first_id, lastId=batch.last_id).load()
        cast = [f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in COLUMNS if name != "day"]
        return frame.selectExpr(*cast, f"{_DAY} AS day")

    def save(self, frame: DataFrame, batch: Batch) -> None:
        """Write Parquet: first into the job's own staging directory, then one rename for each queue and day."""
        from pyspark.sql import functions as sql

        writer = frame.withColumn("batch", sql.lit(batch.number)).write.mode("overwrite")
        writer = writer.option("partitionOverwriteMode", "dynamic").option("compression", "zstd")
        writer.partitionBy(*PARTITIONED_BY).parquet(self.files.root)

    def publish(self, batch: Batch, manifest: Manifest) -> None:
        """Make the batch part of the lake, and record it in the database."""
        require_lock(self.register.connection)
        try:
            published = self.files.publish(f"{FOLDER}/{manifest.name}", manifest.to_json())
        except Exception as error:
            raise ExportStopped(
                f"The manifest of the {batch} could not be written to {self.files.root}: {first_line(error)}. None "
                "of it was purged; the next run continues from here."
            ) from error
        if not published:
            raise ExportStopped(
                f"The {batch} was published by another export meanwhile, which had lost its lock. None of it was "
                "purged; run the export again."
            )
        if read_manifest(self.files, manifest.name) != manifest:
            raise LakeDamaged(f"The manifest {manifest.name} differs from what was written: check the disk.")
        self.register.verified(batch)
        self.clear(batch)

    def clear(self, batch: Batch) -> None:
        """Delete what other tries of this batch have written, which can't be published any more."""
        for number in self.register.given_up(batch.first_id):
            for folder in self.files.folders(f"queue=*/day=*/batch={number}"):
                self.files.delete(folder)

    def purge(self, batch: Batch, before: int, *, checked: bool = False) -> int:
        """Purge, from a batch that is in the lake, the rows that no reader still has to read; return how many."""
        if self.register.bound(batch) <= batch.purged:
            return 0
        manifest = read_manifest(self.files, name_of(batch.first_id))
        self.require_same(batch, manifest)
        if not checked:
            verify(self.spark, self.files, manifest)
        require_lock(self.register.connection)
        return self.register.purge(batch, progress=lambda rows: self.progress("rows purged", before + rows, None))

    def require_same(self, batch: Batch, manifest: Manifest) -> None:
        """Raise LakeDamaged unless the manifest covers all rows that would be purged."""
        said = (manifest.batch, manifest.first_id, manifest.last_id, manifest.rows)
        if said != (batch.number, batch.first_id, batch.last_id, batch.rows):
            raise LakeDamaged(f"The manifest {manifest.name} is not the one of the {batch}. None of it was purged.")
        remaining = self.register.remaining(batch)
        if remaining > manifest.rows:
            raise ExportStopped(
                f"The archive has {remaining:,} rows of the {batch}, but its manifest has {manifest.rows:,}: "
                "somebody inserted rows with explicit ids. None of it was purged."
            )

    def held_by(self, position: int) -> tuple[history_readers.Reader, ...]:
        """Return the readers that are behind the lake."""
        every = history_readers.readers(self.register.connection)
        return tuple(each for each in every if each.name != self.register.lake and each.position < position)
