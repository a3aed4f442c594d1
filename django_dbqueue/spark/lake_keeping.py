"""What everything that changes a lake does under the exporters' lock: settle what a killed run left, and snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from django_dbqueue.exceptions import DBQueueError, ExportStopped, InvalidPipeline, LakeDamaged
from django_dbqueue.history.history_sql import REWRITE
from django_dbqueue.spark.admission import open_lasting
from django_dbqueue.spark.delta_log import DeltaLog, has_log, require_deltalake
from django_dbqueue.spark.exclusive import only_exporter, require_lock
from django_dbqueue.spark.export_batches import Register
from django_dbqueue.spark.files import Files
from django_dbqueue.spark.lake import COLUMNS, identity
from django_dbqueue.spark.lake_writing import attempts, forget
from django_dbqueue.spark.manifest import FOLDER, LakeFile, Manifest, total
from django_dbqueue.spark.manifests import Listed, first_line, listed, read_manifest
from django_dbqueue.spark.spark_session import register
from django_dbqueue.spark.verifying import measured, verify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from django_dbqueue.spark.credentials import Credentials

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    # INT96, the default, is not a timestamp to anything except Spark
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
FOLD: Final = 100
"""Manifests of batches that are read one by one, before a snapshot replaces them."""


class NamesLake(Protocol):
    """A job's config, as far as the lake's keeper reads it."""

    @property
    def lake(self) -> str:
        """The lake's root."""

    def load_credentials(self) -> Credentials:
        """Return those of the queue's database."""


@contextmanager
def keeping(spark: SparkSession, config: NamesLake, *, make: bool, delta: bool = False) -> Iterator[Keeper]:
    """Hold the exporters' lock on a lake, in a Spark session of its own; ``make`` it if it isn't there.

    A Delta log that it has is kept; ``delta`` makes one.
    """
    credentials = config.load_credentials()
    session = spark.newSession()
    register(session)
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    files = Files(session, config.lake)
    with open_lasting(credentials) as connection, only_exporter(connection, credentials):
        try:
            logged = has_log(files)
            if logged or delta:
                require_deltalake(files.root)
            lake = identity(files, make=make and not logged)
        except DBQueueError:
            raise
        except Exception as error:
            raise ExportStopped(
                f"The lake's root {files.root} can't be written to: {first_line(error)}. Nothing was exported or "
                "purged. Make the directory writable for the user of Spark's driver and executors."
            ) from error
        if lake is None and logged:
            raise InvalidPipeline(f"{config.lake!r} is a Delta table, and no lake of the queue: name another root.")
        if lake is None:
            raise InvalidPipeline(f"There is no lake at {config.lake!r}: name the root that export has written to.")
        log = DeltaLog(files, lake) if logged or delta else None
        yield Keeper(session, files, Register(connection, lake), log)


@dataclass(frozen=True, slots=True)
class Keeper:
    """A lake, and the database's record of it."""

    spark: SparkSession
    files: Files
    register: Register
    delta: DeltaLog | None = None

    def recover(self, position: int) -> tuple[int, Listed]:
        """Record what a killed run has published, and clear what it left; return how far the lake is, and its state."""
        lake = listed(self.files)
        name = self.register.compare(lake, position)
        if name is not None:
            manifest = read_manifest(self.files, name)
            batch = self.register.adopt(manifest)
            verify(self.spark, self.files, manifest)
            self.register.verified(batch)
            position = batch.last_id
        for leftover in self.files.names(FOLDER, prefix=".", suffix=".tmp"):
            self.files.delete(f"{FOLDER}/{leftover}")
        if self.clear(position, lake) or len(lake.names) >= FOLD:
            lake = self.publish(lake, [each for manifest in self.read(lake) for each in manifest.files])
            self.clear(position, lake)
        if self.delta is not None:
            require_lock(self.register.connection)
            self.delta.match(each for manifest in self.read(lake) for each in manifest.files)
        return position, lake

    def read(self, lake: Listed) -> list[Manifest]:
        """Return the manifests that count."""
        batches = [read_manifest(self.files, name) for name in lake.names]
        return batches if lake.snapshot is None else [lake.snapshot, *batches]

    def clear(self, position: int, lake: Listed) -> bool:
        """Forget attempts that are settled; return whether one is left that could still publish the next snapshot.

        One whose ids, or whose snapshot's number, are not yet taken may be that of a run that is only frozen.
        """
        known, pending = {batch.number: batch for batch in self.register.batches()}, False
        for attempt in attempts(self.files):
            batch = known.get(attempt.number)
            if batch is None:
                continue
            if batch.state == REWRITE:
                published = lake.snapshot is not None and lake.snapshot.batch == batch.number
                settled = attempt.sequence <= lake.sequence
                pending = pending or not settled
            else:
                published = batch.is_published
                settled = published or batch.first_id <= position
            if settled:
                forget(self.files, attempt, published=published)
        return pending

    def publish(self, lake: Listed, named: Iterable[LakeFile], *, batch: int = 0) -> Listed:
        """Make these files the lake's for all ids it has, by the next snapshot; measure those without facts."""
        before = self.read(lake)
        files = tuple(named)
        plain = measured(self.spark, self.files, [each for each in files if each.facts is None])
        facts = {each.path: each for each in plain}
        files = tuple(facts.get(each.path, each) for each in files)
        rows, checksum = total(files)
        snapshot = Manifest(
            lake=self.register.lake,
            batch=batch,
            sequence=lake.sequence + 1,
            first_id=min(each.first_id for each in before),
            last_id=max(each.last_id for each in before),
            rows=rows,
            checksum=checksum,
            columns=COLUMNS,
            files=files,
            written_at=self.register.now(),
        )
        require_lock(self.register.connection)
        publish(self.files, snapshot, f"snapshot {snapshot.sequence}")
        if self.delta is not None:
            self.delta.match(files)
        return Listed(snapshot, ())


def publish(files: Files, manifest: Manifest, what: str) -> None:
    """Make a manifest appear, once; ExportStopped if another one has its name, or the disk refuses it."""
    try:
        published = files.publish(f"{FOLDER}/{manifest.name}", manifest.to_json())
    except Exception as error:
        raise ExportStopped(
            f"The manifest of the {what} could not be written to {files.root}: {first_line(error)}. None of it was "
            "purged; the next run continues from here."
        ) from error
    if not published:
        raise ExportStopped(
            f"The {what} was published in the meantime by another export, which had lost its lock. None of it was "
            "purged; run the export again."
        )
    if read_manifest(files, manifest.name) != manifest:
        raise LakeDamaged(f"The manifest {manifest.name} differs from what was written: check the disk.")
