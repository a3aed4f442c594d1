"""What the database knows of a lake: the batches that are in it, the one in progress, and the purge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django_dbqueue.databases.history_sql import DROPPED, PLANNED, PURGED, VERIFIED
from django_dbqueue.exceptions import LakeDamaged
from django_dbqueue.spark import history_readers
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.manifest import Manifest, name_of

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
        connection = self.connection
        known = connection.fetch(connection.dialect.history.reader_position(self.lake))
        if known:
            return int(known[0][0])
        had = [batch.last_id for batch in self.batches() if batch.state in (VERIFIED, PURGED)]
        start = max([*had, history_readers.purged_to(connection)])
        history_readers.resume(connection, self.lake, start)
        return start

    def batches(self) -> list[Batch]:
        """Return all of them by id, including those that were given up."""
        return [Batch(*row) for row in self.connection.fetch(self.connection.dialect.history.batches(self.lake))]

    def exported(self) -> list[Batch]:
        """Return those that are in the lake."""
        return [batch for batch in self.batches() if batch.state in (VERIFIED, PURGED)]

    def compare(self, names: list[str], position: int) -> str | None:
        """Return the name of a manifest that the database has not recorded; LakeDamaged for any other difference."""
        known = {name_of(batch.first_id): batch for batch in self.exported()}
        if missing := sorted(set(known) - set(names)):
            raise LakeDamaged(
                f"The manifest {missing[0]} of the {known[missing[0]]} of the lake {self.lake!r} is missing. Restore "
                "it from a backup of the lake; until then nothing is exported or purged."
            )
        unknown = sorted(set(names) - set(known))
        if unknown in ([], [name_of(position + 1)]):
            return unknown[0] if unknown else None
        raise LakeDamaged(
            f"This database has no record of the manifest {unknown[0]} of the lake {self.lake!r}: the lake belongs "
            "to another database, or this one was restored from an older state. Export to another root."
        )

    def plan(self, after: int, limit: int, cutoff: object) -> Batch | None:
        """Plan the first rows after an id that were archived up to the cutoff; None if there are none."""
        connection, dialect = self.connection, self.connection.dialect

        def work() -> Batch | None:
            with connection.transaction():
                connection.run(dialect.history.drop_batches(self.lake))
                [(last, rows, young)] = connection.fetch(dialect.history.window(after, limit, cutoff))
                if young is not None:
                    [(last, rows)] = connection.fetch(dialect.history.count_history(after, young - 1))
                if not rows:
                    return None
                number = max((batch.number for batch in self.batches()), default=0) + 1
                connection.run(dialect.history.insert_batch(self.lake, number, after + 1, last, rows))
                return Batch(number, after + 1, int(last), int(rows))

        return connection.outermost(work)

    def given_up(self, first_id: int) -> list[int]:
        """Return the numbers of the tries, for the batch that starts here, that never got a manifest."""
        return [batch.number for batch in self.batches() if batch.first_id == first_id and batch.state == DROPPED]

    def adopt(self, manifest: Manifest) -> Batch:
        """Return a manifest's batch, which a killed run had planned; LakeDamaged if none had."""
        for batch in self.batches():
            said = (batch.number, batch.first_id, batch.last_id, batch.rows)
            if said == (manifest.batch, manifest.first_id, manifest.last_id, manifest.rows):
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
                connection.run(connection.dialect.history.verify_batch(self.lake, batch.number))
                history_readers.advance(connection, self.lake, batch.last_id)

        connection.outermost(work)

    def bound(self, batch: Batch) -> int:
        """Return the id within a batch up to which all other readers have come."""
        others = [each for each in history_readers.readers(self.connection) if each.name != self.lake]
        return min([batch.last_id, *(each.position for each in others)])

    def purge(self, batch: Batch, *, progress: Callable[[int], None]) -> int:
        """Delete a batch's rows that no reader still has to read; return how many were deleted."""
        deleted, gone = 0, batch.purged
        while gone < batch.last_id:
            rows, through = self._purge_chunk(batch, gone)
            if through <= gone:
                break
            deleted, gone = deleted + rows, through
            progress(deleted)
        return deleted

    def _purge_chunk(self, batch: Batch, gone: int) -> tuple[int, int]:
        connection, dialect = self.connection, self.connection.dialect

        def work() -> tuple[int, int]:
            bound = self.bound(batch)
            if bound <= gone:
                return 0, gone
            [(end,)] = connection.fetch(dialect.history.purge_end(gone, bound, PURGE_ROWS))
            rows = connection.run(dialect.history.delete_history(gone, end)) if end is not None else 0
            through = bound if rows < PURGE_ROWS else int(end)
            connection.run(dialect.history.purge_batch(self.lake, batch.number, through))
            return rows, through

        return history_readers.under_mutex(connection, work)

    def remaining(self, batch: Batch) -> int:
        """Count a batch's rows that are still in the archive."""
        statement = self.connection.dialect.history.count_history(batch.purged, batch.last_id)
        return int(self.connection.fetch(statement)[0][1])

    def cutoff(self, seconds: float) -> Any:
        """Return the moment ``seconds`` ago, in the form of the columns."""
        return self.connection.fetch(self.connection.dialect.history.moment_before(seconds))[0][0]

    def now(self) -> str:
        """Return the database's clock as text."""
        return self.connection.clock().isoformat()
