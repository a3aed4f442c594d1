"""Export: rows of the archive into a lake, batch by batch; purged once their manifest was verified.

A batch is a contiguous range of archive ids. It is planned, written under a number that no other try has, read back,
published by its manifest, recorded in the database, and purged. The manifest decides: if the run is killed, what was
written before it is a leftover, and what was to be done after it is done by the next run. The manifest's name is the
batch's first id, so ids are published only once, even by an export that continued after losing its lock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django_dbqueue.exceptions import ExportStopped, LakeDamaged
from django_dbqueue.spark import history_readers
from django_dbqueue.spark.exclusive import require_lock
from django_dbqueue.spark.export_batches import Batch
from django_dbqueue.spark.jobs.arguments import Progress, quiet
from django_dbqueue.spark.jobs.config import ExportConfig
from django_dbqueue.spark.lake import COLUMNS, frame_of
from django_dbqueue.spark.lake_keeping import Keeper, keeping, publish
from django_dbqueue.spark.lake_writing import write
from django_dbqueue.spark.manifest import LakeFile, Manifest, name_of
from django_dbqueue.spark.manifests import Listed, first_line, read_manifest
from django_dbqueue.spark.verifying import hexadecimal, measured, require_total, summing, verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from django_dbqueue.spark.export_batches import Register
    from django_dbqueue.spark.files import Files

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
    with keeping(spark, config, make=True, delta=config.delta) as keeper:
        return Export(keeper, config, progress).run()


@dataclass(frozen=True, slots=True)
class Export:
    """One run, under the lock."""

    keeper: Keeper
    config: ExportConfig
    progress: Progress

    @property
    def spark(self) -> SparkSession:
        """The session that reads and writes."""
        return self.keeper.spark

    @property
    def files(self) -> Files:
        """The lake's files."""
        return self.keeper.files

    @property
    def register(self) -> Register:
        """What the database knows of the lake."""
        return self.keeper.register

    def run(self) -> ExportResult:
        """Finish what a killed run has left, then export batch by batch."""
        result = ExportResult(self.files.root)
        position, lake = self.keeper.recover(self.register.begin())
        if not self.config.keep:
            for batch in self.register.exported():
                result = replace(result, purged=result.purged + self.purge(batch, lake, result.purged))
        cutoff = self.register.cutoff(self.config.older_than)
        while result.batches != self.config.max_batches:
            planned = self.register.plan(position, self.config.batch_rows, cutoff)
            if planned is None:
                break
            manifest = self.write(planned)
            self.publish(planned, manifest)
            position = planned.last_id
            self.keeper.clear(position, lake)
            result = replace(
                result,
                batches=result.batches + 1,
                rows=result.rows + manifest.rows,
                files=result.files + len(manifest.files),
            )
            self.progress("rows exported", result.rows, None)
            if not self.config.keep:
                result = replace(result, purged=result.purged + self.purge(planned, lake, result.purged, checked=True))
        return replace(result, held_by=() if self.config.keep else self.held_by(position))

    def write(self, batch: Batch) -> Manifest:
        """Write a batch's files, read them back, and return their manifest."""
        from pyspark.sql import Observation

        rows = self.rows(batch)
        seen = Observation(f"batch {batch.number}")
        frame = rows.hint("rebalance", "queue", "day").observe(seen, *summing())
        try:
            written = write(self.files, frame, batch.number)
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
        found = self.read_back(written, batch)
        manifest = Manifest(
            lake=self.register.lake,
            batch=batch.number,
            first_id=batch.first_id,
            last_id=batch.last_id,
            rows=batch.rows,
            checksum=hexadecimal(observed["checksum"]),
            columns=COLUMNS,
            files=found,
            written_at=self.register.now(),
        )
        require_total(self.files, manifest, found)
        return manifest

    def read_back(self, written: Sequence[LakeFile], batch: Batch) -> tuple[LakeFile, ...]:
        """Return what was written with its facts."""
        try:
            return measured(self.spark, self.files, written)
        except Exception as error:
            raise LakeDamaged(
                f"What was written of the {batch} can't be read back: {first_line(error)}. None of it was purged."
            ) from error

    def rows(self, batch: Batch) -> DataFrame:
        """Return a batch's rows in the form of the lake."""
        source = self.spark.read.format("dbqueue").options(**self.config.options)
        frame = source.options(source="history", firstId=batch.first_id, lastId=batch.last_id).load()
        cast = [f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in COLUMNS if name != "day"]
        return frame.selectExpr(*cast, f"{_DAY} AS day")

    def publish(self, batch: Batch, manifest: Manifest) -> None:
        """Make the batch part of the lake, and record it in the database."""
        require_lock(self.register.connection)
        publish(self.files, manifest, str(batch))
        self.register.verified(batch)
        if self.keeper.delta is not None:
            self.keeper.delta.commit(manifest.files)

    def purge(self, batch: Batch, lake: Listed, before: int, *, checked: bool = False) -> int:
        """Purge, from a batch that is in the lake, the rows that no reader still has to read; return how many."""
        if batch.purged == batch.last_id or self.register.bound(batch) <= batch.purged:
            return 0
        manifest, files = self.holding(batch, lake)
        if not checked:
            verify(self.spark, self.files, manifest, files)
        remaining, rows = self.register.remaining(batch), self.held(batch, manifest, files)
        if remaining > rows:
            raise ExportStopped(
                f"The archive has {remaining:,} rows of the {batch}, but its manifest has {rows:,}: somebody inserted "
                "rows with explicit ids. None of it was purged."
            )
        require_lock(self.register.connection)
        return self.register.purge(batch, progress=lambda rows: self.progress("rows purged", before + rows, None))

    def holding(self, batch: Batch, lake: Listed) -> tuple[Manifest, tuple[LakeFile, ...]]:
        """Return the manifest and the files that hold a batch."""
        if lake.snapshot is not None and batch.last_id <= lake.folded_to:
            return lake.snapshot, lake.snapshot.having(batch.first_id, batch.last_id)
        manifest = read_manifest(self.files, name_of(batch.first_id))
        written = (manifest.batch, manifest.first_id, manifest.last_id, manifest.rows)
        if written != (batch.number, batch.first_id, batch.last_id, batch.rows):
            raise LakeDamaged(f"The manifest {manifest.name} is not the one of the {batch}. None of it was purged.")
        return manifest, manifest.files

    def held(self, batch: Batch, manifest: Manifest, files: Sequence[LakeFile]) -> int:
        """Return how many rows of a batch these files hold."""
        if not manifest.sequence:
            return manifest.rows
        rows = frame_of(self.spark, self.files, [each.path for each in files])
        return rows.where(f"id BETWEEN {batch.first_id} AND {batch.last_id}").count()

    def held_by(self, position: int) -> tuple[history_readers.Reader, ...]:
        """Return the readers that are behind the lake."""
        every = history_readers.readers(self.register.connection)
        return tuple(each for each in every if each.name != self.register.lake and each.position < position)
