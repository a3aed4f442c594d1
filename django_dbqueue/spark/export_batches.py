"""What the database knows of a lake: the batches that are in it, the one in progress, and the purge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django_dbqueue.exceptions import LakeDamaged
from django_dbqueue.history import history_sql, partitions
from django_dbqueue.history.history_sql import PLANNED, PURGED, REWRITE, VERIFIED
from django_dbqueue.spark import history_readers
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.manifest import Manifest, name_of
from django_dbqueue.spark.manifests import Listed

PURGE_ROWS: Final = 5_000
"""Rows per DELETE."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The ids from the first to the last, both included, and the number of rows."""

    number: int
    first_id: int
    last_id: int
    rows: int
    state: str = PLANNED
    purged_to: int | None = None

    @property
    def is_published(self) -> bool:
        """Whether the database knows it as a part of the lake."""
        return self.state in (VERIFIED, PURGED)

    @property
    def purged(self) -> int:
        """Return the last id known to be purged, or the one before the batch."""
        return self.first_id - 1 if self.purged_to is None else self.purged_to

    def __str__(self) -> str:
        return f"batch {self.number} (archive ids {self.first_id:,} to {self.last_id:,})"


@dataclass(frozen=True, slots=True)
class Register:
    """The batches of one lake in the database. Every method is a transaction of its own."""

    connection: Connection
    lake: str

    def begin(self) -> int:
        """Register the lake as a reader of the history; return the last id that it has."""
        known = self._as_reader()
        if known is not None:
            return known
        return history_readers.join(self.connection, self.lake, self.position())

    def position(self) -> int:
        """Return the last id that the lake has, whether it is registered or not; 0 if it has none."""
        known = self._as_reader()
        return known if known is not None else max((batch.last_id for batch in self.exported()), default=0)

    def _as_reader(self) -> int | None:
        known = self.connection.fetch(history_sql.reader_position(self.connection.server, self.lake))
        return int(known[0][0]) if known else None

    def batches(self) -> list[Batch]:
        """Return all of them by id, including those that were given up."""
        return [Batch(*row) for row in self.connection.fetch(history_sql.batches(self.connection.server, self.lake))]

    def exported(self) -> list[Batch]:
        """Return those that are in the lake."""
        return [batch for batch in self.batches() if batch.is_published]

    def compare(self, lake: Listed, position: int) -> str | None:
        """Return the name of a manifest that the database has not recorded; LakeDamaged for any other difference."""
        exported = self.exported()
        if lake.snapshot is not None and lake.folded_to not in {batch.last_id for batch in exported}:
            raise self._of_another(lake.snapshot.name)
        known = {name_of(batch.first_id): batch for batch in exported if batch.first_id > lake.folded_to}
        if missing := sorted(set(known) - set(lake.names)):
            raise LakeDamaged(
                f"The manifest {missing[0]} of the {known[missing[0]]} of the lake {self.lake!r} is missing. Restore "
                "it from a backup of the lake; until then nothing is exported or purged."
            )
        unknown = sorted(set(lake.names) - set(known))
        if unknown in ([], [name_of(position + 1)]):
            return unknown[0] if unknown else None
        raise self._of_another(unknown[0])

    def _of_another(self, name: str) -> LakeDamaged:
        return LakeDamaged(
            f"This database has no record of the manifest {name} of the lake {self.lake!r}: the lake belongs to "
            "another database, or this one was restored from an older state. Export to another root."
        )

    def plan(self, after: int, limit: int, cutoff: object) -> Batch | None:
        """Plan the first rows after an id that were archived up to the cutoff; None if there are none."""
        connection, server = self.connection, self.connection.server

        def work() -> Batch | None:
            with connection.transaction():
                connection.run(history_sql.drop_batches(server, self.lake))
                [(last, rows, young)] = connection.fetch(history_sql.window(server, after, limit, cutoff))
                if young is not None:
                    [(last, rows)] = connection.fetch(history_sql.count_history(server, after, young - 1))
                if not rows:
                    return None
                batch = Batch(self._next_number(), after + 1, int(last), int(rows))
                connection.run(
                    history_sql.insert_batch(server, self.lake, batch.number, after + 1, last, rows, PLANNED)
                )
                return batch

        return connection.outermost(work)

    def plan_rewrite(self) -> int:
        """Return a number that no other attempt has, for files that replace others of the lake."""
        connection = self.connection

        def work() -> int:
            with connection.transaction():
                number, last_id = self._next_number(), self.position()
                connection.run(history_sql.insert_batch(connection.server, self.lake, number, 1, last_id, 0, REWRITE))
                return number

        return connection.outermost(work)

    def _next_number(self) -> int:
        return max((batch.number for batch in self.batches()), default=0) + 1

    def adopt(self, manifest: Manifest) -> Batch:
        """Return a manifest's batch, which a killed run had planned; LakeDamaged if none had."""
        for batch in self.batches():
            planned = (batch.number, batch.first_id, batch.last_id, batch.rows)
            if planned == (manifest.batch, manifest.first_id, manifest.last_id, manifest.rows):
                return batch
        raise LakeDamaged(
            f"The manifest {manifest.name} of the lake {self.lake!r} belongs to a batch that this database never "
            "planned: it was written from another database. Export to another root."
        )

    def verified(self, batch: Batch) -> None:
        """Record that a batch is in the lake, which is then done with its rows."""
        connection = self.connection

        def work() -> None:
            with connection.transaction():
                connection.run(history_sql.verify_batch(connection.server, self.lake, batch.number))
                history_readers.advance(connection, self.lake, batch.last_id)

        connection.outermost(work)

    def bound(self, batch: Batch) -> int:
        """Return the id within a batch up to which all other readers have come."""
        others = [each for each in history_readers.readers(self.connection) if each.name != self.lake]
        return min([batch.last_id, *(each.position for each in others)])

    def purge(self, batch: Batch, *, progress: Callable[[int], None]) -> int:
        """Purge a batch's rows that no reader still has to read; return how many.

        They are deleted, or, if the history has partitions, recorded as purged: each partition is dropped as soon as
        that is true of all of its ids, here or by a worker.
        """
        if partitions.existing(self.connection):
            rows = history_readers.under_mutex(self.connection, lambda: self._record(batch))
            partitions.keep(self.connection)
            progress(rows)
            return rows
        self._delete_leftovers()
        deleted, gone = 0, batch.purged
        while gone < batch.last_id:
            rows, through = self._purge_chunk(batch, gone)
            if through <= gone:
                break
            deleted, gone = deleted + rows, through
            progress(deleted)
        return deleted

    def _delete_leftovers(self) -> None:
        """Delete what was recorded as purged while the history had partitions, and has not been dropped with them."""
        connection, server = self.connection, self.connection.server
        purged = history_readers.purged_to(connection)
        while (end := connection.fetch(history_sql.purge_end(server, 0, purged, PURGE_ROWS))[0][0]) is not None:
            connection.run(history_sql.delete_history(server, 0, int(end)))

    def _record(self, batch: Batch) -> int:
        connection, server = self.connection, self.connection.server
        bound = self.bound(batch)
        if bound <= batch.purged:
            return 0
        [(_, rows)] = connection.fetch(history_sql.count_history(server, batch.purged, bound))
        connection.run(history_sql.purge_batch(server, self.lake, batch.number, bound))
        return int(rows)

    def _purge_chunk(self, batch: Batch, gone: int) -> tuple[int, int]:
        connection, server = self.connection, self.connection.server

        def work() -> tuple[int, int]:
            bound = self.bound(batch)
            if bound <= gone:
                return 0, gone
            [(end,)] = connection.fetch(history_sql.purge_end(server, gone, bound, PURGE_ROWS))
            rows = connection.run(history_sql.delete_history(server, gone, end)) if end is not None else 0
            through = bound if rows < PURGE_ROWS else int(end)
            connection.run(history_sql.purge_batch(server, self.lake, batch.number, through))
            return rows, through

        return history_readers.under_mutex(connection, work)

    def remaining(self, batch: Batch) -> int:
        """Count a batch's rows that are still in the archive."""
        statement = history_sql.count_history(self.connection.server, batch.purged, batch.last_id)
        return int(self.connection.fetch(statement)[0][1])

    def cutoff(self, seconds: float) -> Any:
        """Return the moment ``seconds`` ago, in the form of the columns."""
        return self.connection.fetch(history_sql.moment_before(self.connection.server, seconds))[0][0]

    def now(self) -> str:
        """Return the database's clock as text."""
        return self.connection.clock().isoformat()
