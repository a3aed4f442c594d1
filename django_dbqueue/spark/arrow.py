"""From a database's rows to Arrow's columns, as fast as Python can: text as the server sent it, converted in C++.

Measured on a million messages, mysqlclient's own converters, and tuples turned into Arrow, take four to five times as
long. A page is read to its end before any of it is passed on, so its statement, and the read view that it holds, never
wait for the consumer of the batches.
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final, Self

import pyarrow as pa

from django_dbqueue.databases import Statement
from django_dbqueue.exceptions import DBQueueError
from django_dbqueue.spark.admission import Requirement, admitted
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.outage import Patience
from django_dbqueue.spark.schemas import WIDE
from django_dbqueue.statements import scan_sql

STEP: Final = 1_000
"""Rows between two checks of how many bytes there are."""
BATCH_BYTES: Final = 8 << 20
"""A batch ends when its long texts take this much, however many rows it has."""
HELD_BYTES: Final = 64 << 20
"""Memory that a page may take; one that takes more is cut there."""
_HEADER: Final = b"-\n"
"""A line to skip: pyarrow takes U+FEFF at the start of a text for a byte order mark, and a value may start with it."""


class Pages:
    """A session whose SELECTs return Arrow batches of one schema. Close it; not shared between threads."""

    def __init__(
        self,
        credentials: Credentials,
        schema: pa.Schema,
        *,
        fetch_rows: int,
        outage: float,
        requires: Requirement | None = None,
    ) -> None:
        self.schema = schema
        self.fetch_rows = fetch_rows
        self.step = min(STEP, fetch_rows)
        self.wide = [place for place, field in enumerate(schema) if field.name.lower() in WIDE]
        self.credentials = credentials
        self.requires = requires
        self.patience = Patience(outage)
        self.server = credentials.server
        self.is_cut = False
        """Whether the last page ended before its last row, because it was too large to be held."""
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """Return the session, opened if there is none now."""
        while self._connection is None:
            try:
                seconds = self.patience.seconds
                self._connection = admitted(self.credentials, outage=seconds, requires=self.requires)
            except Exception as error:
                self.patience.wait(error)
        return self._connection

    def recover(self, error: Exception) -> None:
        """Let the next page have a new session after one that ended; raise what waiting can't fix.

        The reader continues after the last row that was passed on.
        """
        self.close()
        self.patience.wait(error)

    def read(self, statement: Statement) -> Iterator[pa.RecordBatch]:
        """Run a SELECT of the schema's columns; nothing runs on the server once its first batch is passed on.

        A page that takes more than HELD_BYTES ends there (``is_cut``), and the caller asks for the rest. Where sessions
        are counted, somebody else may have this one's place while batches are worked on.
        """
        self.is_cut, held, size = False, list[pa.RecordBatch](), 0
        with closing(self._batches(statement)) as batches, _no_collection():
            for batch in batches:
                held.append(batch)
                size += batch.nbytes
                if size > HELD_BYTES:
                    self.is_cut = True
                    break
        self.patience.answered()
        if self.is_cut or self.credentials.is_counted:
            self.close()
        yield from held

    def _batches(self, statement: Statement) -> Generator[pa.RecordBatch]:
        special = {"MySQLdb": self._from_mysql, "psycopg": self._from_postgresql}
        return special.get(self.connection.server.driver.module, self._from_any)(statement)

    def _from_mysql(self, statement: Statement) -> Generator[pa.RecordBatch]:
        from MySQLdb.cursors import SSCursor

        raw = self.connection.raw
        raw.converter = {}  # bytes as received; parameters have their own encoders
        with closing(raw.cursor(SSCursor)) as cursor:
            cursor.execute(statement.sql, statement.params)
            fetch_row = cursor._result.fetch_row  # the rows of one C call, without the cursor's work on each
            try:
                yield from self._gathered(lambda: fetch_row(self.step, 0))
            except GeneratorExit:
                _hang_up(raw)
                with suppress(Exception):
                    cursor.close()
                raise

    def _from_any(self, statement: Statement) -> Generator[pa.RecordBatch]:
        with closing(self.connection._execute(statement)) as cursor:
            yield from self._gathered(lambda: cursor.fetchmany(self.step))

    def _gathered(self, fetch: Callable[[], Sequence[object]]) -> Iterator[pa.RecordBatch]:
        columns: list[list[Any]] = [[] for _ in self.schema]
        size = 0
        while rows := fetch():
            for column, values in zip(columns, zip(*rows, strict=True), strict=True):
                column.extend(values)
            # A column with only NULLs has no length, which the fastest test detects
            size += sum(
                sum(map(len, filter(None, each)))
                for each in (columns[place][-len(rows) :] for place in self.wide)
                if any(each)
            )
            if len(columns[0]) >= self.fetch_rows or size >= BATCH_BYTES:
                yield self._converted(columns)
                columns, size = [[] for _ in self.schema], 0
        if columns[0]:
            yield self._converted(columns)

    def _converted(self, columns: Sequence[Sequence[object]]) -> pa.RecordBatch:
        arrays = [_converted(values, field.type) for values, field in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _from_postgresql(self, statement: Statement) -> Generator[pa.RecordBatch]:
        copied = scan_sql.copied_out(statement)
        with self.connection.raw.cursor() as cursor, cursor.copy(copied.sql, copied.params) as copy:
            lines: list[bytes] = []
            size = 0
            for line in copy:
                lines.append(line)
                size += len(line)
                if len(lines) >= self.fetch_rows or size >= BATCH_BYTES:
                    yield self._parsed(lines)
                    lines, size = [], 0
            if lines:
                yield self._parsed(lines)

    def _parsed(self, lines: Sequence[bytes]) -> pa.RecordBatch:
        from pyarrow import csv

        text = _HEADER + b"".join(lines)
        table = csv.read_csv(
            pa.BufferReader(text),
            # A block that holds everything, so that no row crosses a block boundary
            csv.ReadOptions(column_names=self.schema.names, skip_rows=1, block_size=len(text) + 1, use_threads=False),
            # An empty line is a row: the NULL of a single column
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            # NULL is written as nothing, and an empty text as ""
            csv.ConvertOptions(
                column_types=self.schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
        if table.num_rows != len(lines):
            raise DBQueueError(
                f"PostgreSQL sent {len(lines):,} rows, and pyarrow {pa.__version__} made {table.num_rows:,} of them. "
                "None of them were passed on. This is a bug: please report it with the columns that you read."
            )
        [batch] = table.combine_chunks().to_batches()
        return batch

    def close(self) -> None:
        """End the session; the next page opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _converted(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    first = next(filter(None, values), None)  # the fastest test: most columns are decided by it
    if first is None:  # as in many columns, batch after batch; or only zeros and empty texts
        first = next((value for value in values if value is not None), None)
    if first is None:
        return pa.nulls(len(values), kind)
    if isinstance(first, int | float):
        return pa.array(values, type=kind)  # SQLite's numbers
    # Text is gathered as bytes, in half the time, and checked for UTF-8 all at once, if it isn't parsed anyway
    raw = pa.array(values, type=pa.binary())
    if kind == pa.string():
        return raw.cast(kind)
    text = raw.view(pa.string())
    if pa.types.is_timestamp(kind):
        return text.cast(pa.timestamp(kind.unit)).view(kind)  # they are UTC, and so are Arrow's
    return text.cast(kind)


def _hang_up(raw: Any) -> None:
    """Cut a MySQL session off: its cursor could be closed only once it has read everything that is left."""
    with socket.socket(fileno=os.dup(raw.fileno())) as line, suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from walking through hundreds of thousands of new tuples that hold no cycle."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
