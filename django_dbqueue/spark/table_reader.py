"""Batch read of the live messages and of the history: each page its own short SELECT, one after another in a task.

What a task reads is not one snapshot: each page shows the rows as they were when its statement ran. A row that exists
the whole time is read exactly once, since pages go by id, and no row's id ever changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from django_dbqueue.databases import Statement
from django_dbqueue.databases.moments import to_column
from django_dbqueue.envelope import check_queue
from django_dbqueue.exceptions import InvalidMessage, InvalidPipeline
from django_dbqueue.spark.admission import Requirement
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.id_pieces import dealt
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.spark.outage import OPTION as OUTAGE
from django_dbqueue.spark.outage import outage_of
from django_dbqueue.spark.replicas import OPTIONS as REPLICA_OPTIONS
from django_dbqueue.spark.replicas import beat, max_lag, replica_of
from django_dbqueue.spark.schemas import MESSAGES, Source, arrow_schema, source_of, with_id
from django_dbqueue.spark.source_options import Options
from django_dbqueue.statements import scan_sql
from django_dbqueue.statements.scan_sql import OUTCOMES, STATE_WORDS, Span

if TYPE_CHECKING:
    import pyarrow as pa

    from django_dbqueue.spark.arrow import Pages

OPTIONS: Final = (
    "queue",
    "status",
    "since",
    "until",
    "firstId",
    "lastId",
    "numPartitions",
    "pageRows",
    "fetchRows",
    *REPLICA_OPTIONS,
    OUTAGE,
)
PAGE_ROWS: Final = 50_000
FETCH_ROWS: Final = 10_000
FIRST_PAGE_ROWS: Final = 5_000
"""Rows of a task's first page, which shows how long rows are."""
PAGE_BYTES: Final = 32 << 20
PARTITION_ROWS: Final = 50_000
"""Rows that justify one more task, if ``numPartitions`` is not set."""
MOST_PARTITIONS: Final = 10_000


@dataclass(frozen=True)
class IdRanges(InputPartition):
    """What one task reads: spans of ids, each with its approximate number of rows; or the few rows of some queues."""

    spans: tuple[tuple[Span, int], ...]
    few: bool = False
    requires: Requirement | None = None
    """What the replica that it is read from must show."""


class Condition(NamedTuple):
    """What a row must fulfil, and the column that this is about."""

    column: str
    statement: Statement


def schema_of(options: Mapping[str, str]) -> StructType:
    """Return all columns of the source that the options name; the reader checks the other options, stream or not."""
    return source_of(Options({name.lower(): value for name, value in options.items()})).schema


class TableReader(DataSourceReader):
    """A reader of a source by ranges of ids; pickled to the tasks, so it holds only where the credentials are.

    It takes no filters of Spark's: Spark 4.3 keeps what it planned with the filters of one query in the data frame, and
    answers other uses of the same frame from it: ``frame.count()`` after ``frame.where(…).count()`` counts too few, and
    so does a union of two selections.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = dict(options)
        chosen = Options.of(options, OPTIONS)
        self.source = source_of(chosen)
        self.schema = self.source.checked(schema)
        self.parts = chosen.whole("numPartitions", most=MOST_PARTITIONS)
        self.page_rows = chosen.whole("pageRows", PAGE_ROWS, most=1_000_000)
        self.fetch_rows = chosen.whole("fetchRows", FETCH_ROWS, most=1_000_000)
        self.first_id = chosen.whole("firstId", -(2**63), least=-(2**63))
        self.last_id = chosen.whole("lastId", 2**63 - 1, least=-(2**63))
        self.outage = outage_of(chosen)
        credentials = Credentials.load(options)
        self.has_replica = replica_of(options, credentials) is not None
        self.max_lag = max_lag(chosen)
        self.server = credentials.server
        self.vendor = credentials.vendor
        self.sessions = credentials.max_connections
        self.conditions = list(_conditions(chosen, self.source, credentials))

    def partitions(self) -> list[InputPartition]:
        """Distribute the ids over tasks."""
        if not self.has_replica:
            return self.partitions_on()
        with Lasting(Credentials.load(self.options), outage=self.outage) as session:
            requires = session.ask(lambda connection: beat(connection, self.max_lag))
        return self.partitions_on(requires)

    def partitions_on(self, requires: Requirement | None = None) -> list[InputPartition]:
        """The same on a replica that shows what it must."""
        with Lasting(self._reads_from(), outage=self.outage, requires=requires) as session:
            return [replace(part, requires=requires) for part in session.ask(self._planned)]

    def _reads_from(self) -> Credentials:
        primary = Credentials.load(self.options)
        return replica_of(self.options, primary) or primary

    def _planned(self, connection: Connection) -> list[IdRanges]:
        ends = self._ends(connection)
        if ends is None:
            return [IdRanges(())]
        if self.server.is_file:
            return [IdRanges(((ends, ends.last - ends.first + 1),))]
        if (rows := self._few(connection)) is not None:
            return [IdRanges(((ends, rows),), few=True)]

        def sample(span: Span, limit: int, backwards: bool) -> Any:
            return connection.fetch(scan_sql.sample(self.source.table, span, limit, backwards=backwards))[0]

        parts = self.parts or self.sessions or 2 * (os.cpu_count() or 1)
        every = dealt(ends, sample, parts=parts, least=1 if self.parts else PARTITION_ROWS)
        return [IdRanges(tuple((piece.span, piece.rows) for piece in part)) for part in every] or [IdRanges(())]

    def _ends(self, connection: Connection) -> Span | None:
        """Return the ids that exist and were asked for: where there is an index of moments, those of its rows."""
        table = self.source.table
        within = [
            each.statement
            for each in self.conditions
            if self.source.has_moment_index and each.column == self.source.moment
        ]
        found = scan_sql.ends_of(table, scan_sql.all_of(within)) if within else scan_sql.ends(table)
        lowest, highest, *_ = connection.fetch(found)[0]
        if lowest is None:
            return None
        first, last = max(lowest, self.first_id), min(highest, self.last_id)
        return Span(first, last) if first <= last else None

    def _few(self, connection: Connection) -> int | None:
        """Return how many messages the requested queues have, if a page could hold them all.

        Then the claim index finds them, whatever else is in the table.
        """
        if self.source.name != MESSAGES.name or not any(each.column == "queue" for each in self.conditions):
            return None
        indexed = [each.statement for each in self.conditions if each.column in {"queue", "status"}]
        condition = scan_sql.all_of(indexed)
        rows = int(connection.fetch(scan_sql.count_few(connection.server, condition, self.page_rows + 1))[0][0])
        return rows if rows <= self.page_rows else None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the partition's rows by pages, in id order within each span."""
        from django_dbqueue.spark.arrow import Pages

        assert isinstance(partition, IdRanges)
        if not partition.spans:
            return
        schema, names = arrow_schema(with_id(self.schema)), [field.name for field in self.schema]
        with Pages(
            self._reads_from(), schema, fetch_rows=self.fetch_rows, outage=self.outage, requires=partition.requires
        ) as pages:
            for batch in self._read(pages, partition):
                yield batch if len(names) == len(schema) else batch.select(names)

    def _read(self, pages: Pages, partition: IdRanges) -> Iterator[pa.RecordBatch]:
        columns = [name.lower() for name in pages.schema.names]
        place = columns.index("id")
        limit, rows_seen, bytes_seen = min(FIRST_PAGE_ROWS, self.page_rows), 0, 0
        for span in self._windows(partition):
            first, full = span.first, True
            while full and first <= span.last:
                rows = 0
                try:
                    for batch in pages.read(self._page(pages, columns, Span(first, span.last), limit, partition.few)):
                        rows, bytes_seen = rows + batch.num_rows, bytes_seen + batch.nbytes
                        first = batch.column(place)[-1].as_py() + 1
                        yield batch
                except Exception as error:
                    pages.recover(error)
                    rows_seen += rows
                    continue
                full, rows_seen = pages.is_cut or rows == limit, rows_seen + rows
                if rows_seen:
                    limit = max(1, min(self.page_rows, PAGE_BYTES * rows_seen // max(1, bytes_seen)))

    def _page(self, pages: Pages, columns: list[str], span: Span, limit: int, few: bool) -> Statement:
        statements = [condition.statement for condition in self.conditions]
        condition = scan_sql.all_of(statements) if statements else None
        return scan_sql.page(pages.server, self.source.table, columns, span, limit, condition=condition, few=few)

    def _windows(self, partition: IdRanges) -> Iterator[Span]:
        """Split spans so that no statement scans many more rows than a page has, however few match a condition."""
        for span, rows in partition.spans:
            if not self.conditions or partition.few or self.server.is_file:
                yield span
                continue
            windows = -(-rows // (4 * self.page_rows))
            width = -(-(span.last - span.first + 1) // max(1, windows))
            for first in range(span.first, span.last + 1, width):
                yield Span(first, min(first + width - 1, span.last))


def _conditions(options: Options, source: Source, credentials: Credentials) -> Iterator[Condition]:
    """Yield the conditions that the options set on rows."""
    server, vendor = credentials.server, credentials.vendor
    if queues := options.texts("queue"):
        yield Condition("queue", scan_sql.one_of(server, "queue", [_queue(name) for name in queues]))
    if words := options.texts("status"):
        known = STATE_WORDS if source.name == MESSAGES.name else OUTCOMES
        for word in words:
            Options({"status": word}).choice("status", known, word)
        words = tuple(word.lower() for word in words)
        if source.name == MESSAGES.name:
            yield Condition("status", scan_sql.in_states(server, words))
        else:
            yield Condition("outcome", scan_sql.one_of(server, "outcome", words))
    since, until = options.moment("since"), options.moment("until")
    if since is not None and until is not None and since >= until:
        raise InvalidPipeline(
            f"The option 'since' ({since}) is not before 'until' ({until}), which is the first moment that is "
            "not included."
        )
    for moment, operator in ((since, ">="), (until, "<")):
        if moment is not None:
            yield Condition(
                source.moment, scan_sql.compared(server, source.moment, operator, to_column(moment, vendor))
            )


def _queue(name: str) -> str:
    try:
        return check_queue(name)
    except InvalidMessage as error:
        raise InvalidPipeline(f"The option 'queue' names {name!r}: {error}") from None
