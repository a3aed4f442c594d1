"""The history as a stream: any number of readers follow the archive by its ids, each from its own checkpoint.

An offset is ``{"id": n}``, the last archive id that was read. Ids grow in commit order, so no row will ever be added
between an offset and the newest row; and rows never change, so a batch that is read again is the same. A reader is
registered under its name, which keeps export from purging what it has not passed. If rows are purged all the same, a
task that finds them missing fails, and never skips them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from django_dbqueue.history import history_sql
from django_dbqueue.spark import history_readers
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.spark.outage import outage_of
from django_dbqueue.spark.replicas import MAX_LAG_OPTION, rows_between
from django_dbqueue.spark.source_options import Options
from django_dbqueue.spark.table_reader import OPTIONS, TableReader
from django_dbqueue.spark.trigger_limits import OPTIONS as TRIGGER_OPTIONS
from django_dbqueue.spark.trigger_limits import SmallBatch, TriggerLimits
from django_dbqueue.streams.stream_progress_sql import NAME, READER

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")
Offset = dict[str, int]

OWN_OPTIONS: Final = ("reader", "startingPosition", *TRIGGER_OPTIONS)
MAX_MESSAGES: Final = 100_000
MOST_MESSAGES: Final = 100_000_000
SEEN_EVERY: Final = 10.0
"""Seconds between two signs of life of a reader that has nothing to read."""
MOST_IDLE_SECONDS: Final = 0.5
_EVERY_ID: Final = 2**63 - 1


@dataclass(frozen=True)
class HistoryPiece(InputPartition):
    """What one task reads of the rows after ``after``."""

    after: int
    ranges: InputPartition


def reader_of(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Return a reader that follows the history; InvalidPipeline for options that it doesn't support."""
    return HistoryStreamReader(options, schema)


class HistoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A planner of batches in the driver's runner, on one connection; pickled to the tasks without it."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        allowed = [name for name in OPTIONS if name not in {"firstId", "lastId", MAX_LAG_OPTION}]
        chosen = Options.of(options, (*allowed, *OWN_OPTIONS))
        self.name = history_readers.check_name(
            chosen.required("reader", "it names the reader. Export uses the name to know what it still has to keep.")
        )
        self.starting = chosen.choice(
            "startingPosition", (history_readers.EARLIEST, history_readers.LATEST), history_readers.EARLIEST
        )
        self.limits = TriggerLimits.of(chosen, MAX_MESSAGES, most=MOST_MESSAGES)
        own = {name.lower() for name in OWN_OPTIONS}
        self.options = {name: value for name, value in options.items() if name.lower() not in own}
        self.schema = schema
        self.outage = outage_of(chosen)
        self.reader_between(0, 0)  # reports errors in the other options before anything runs
        self._forget_state()

    def _forget_state(self) -> None:
        self._session: Lasting | None = None
        self._begun_at: int | None = None
        self._held: int | None = None
        """The position that the registered reader is known to have."""
        self._seen = 0.0
        self._until = _EVERY_ID
        self._idle = 0.0
        self._small = SmallBatch(self.limits)
        self._next = (-1, -1, 0)
        """Of the next batch: the id that it is after, its last id so far, and how many rows it has."""

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._forget_state()

    # -- in the driver's runner ---------------------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadMaxRows(self.limits.most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._until = self._ask(history_readers.newest_id)

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Register the reader where it is to start; return the same if asked again."""
        if self._begun_at is None:
            self._begun_at = self._ask(lambda connection: history_readers.begin(connection, self.name, self.starting))
        return {"id": self._begun_at}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Advance the reader to what Spark has committed, and find how far the next batch goes."""
        after = int(start["id"])
        self._move(after)
        assert isinstance(limit, ReadMaxRows | ReadAllAvailable)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else _EVERY_ID
        last, rows = self._next_batch(after, most)
        takes_what_is_there = most == _EVERY_ID or self._until != _EVERY_ID
        if not rows or (rows < self._small.least and not takes_what_is_there):
            time.sleep(self._idle)  # otherwise Spark would ask again at once, and do nothing else
            self._idle = min(MOST_IDLE_SECONDS, 0.01 + 2 * self._idle)
            return start
        self._idle = 0.0
        self._small.begin()
        return {"id": last}

    def _next_batch(self, after: int, most: int) -> tuple[int, int]:
        """Return the last id of the next batch, and its rows; what an earlier look has counted stays counted."""
        known, last, rows = self._next
        if known != after:
            last, rows = after, 0
        if rows < most:
            begin, left = last, most - rows
            [(end, more)] = self._ask(
                lambda each: each.fetch(history_sql.following(each.server, begin, self._until, left))
            )
            last, rows = last if end is None else int(end), rows + more
        self._next = (after, last, rows)
        return last, rows

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return the newest row, for Spark's progress events; after a check that began no batch, without another."""
        is_known = self._idle and self._until == _EVERY_ID
        newest = self._next[1] if is_known else self._ask(history_readers.newest_id)
        return {NAME: READER + self.name, "id": newest}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Distribute the rows of a batch over tasks, also when it is read again."""
        after, last = int(start["id"]), int(end["id"])
        if self._held is None:
            self._register(after)
        reader, requires = self.reader_between(after, last), None
        if reader.has_replica:  # which must have each row of the batch before any of it is read there
            requires = self._ask(lambda connection: rows_between(connection, after, last))
        return [HistoryPiece(after, each) for each in reader.partitions_on(requires)]

    def commit(self, end: Offset) -> None:
        self._move(int(end["id"]))

    def stop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _move(self, position: int) -> None:
        """Record that all rows up to here are done; now and then also that the reader is alive."""
        known = self._held
        if known is None:
            self._register(position)
        if known is None or position > known or time.monotonic() - self._seen > SEEN_EVERY:
            self._ask(lambda connection: history_readers.advance(connection, self.name, position))
            self._held, self._seen = position, time.monotonic()

    def _register(self, position: int) -> None:
        self._ask(lambda connection: history_readers.resume(connection, self.name, position))
        self._held = position

    def _ask(self, work: Callable[[Connection], Result]) -> Result:
        """Run work that may run twice."""
        if self._session is None:
            self._session = Lasting(Credentials.load(self.options), outage=self.outage, stands=True)
        return self._session.ask(work)

    # -- in the tasks -------------------------------------------------------------------------------------

    def reader_between(self, after: int, last: int) -> TableReader:
        """Return a batch reader of the rows after one id up to another."""
        return TableReader({**self.options, "firstId": str(after + 1), "lastId": str(last)}, self.schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows, then make sure that none of them could have been purged before."""
        assert isinstance(partition, HistoryPiece)
        yield from self.reader_between(partition.after, _EVERY_ID).read(partition.ranges)
        with Lasting(Credentials.load(self.options), outage=self.outage) as session:
            session.ask(lambda connection: history_readers.require_kept(connection, self.name, partition.after))
