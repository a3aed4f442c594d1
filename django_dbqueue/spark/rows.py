"""A frame's rows as the queue's: every row passes the checks of ``envelope.seal``, and one that doesn't is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from django_dbqueue import codecs
from django_dbqueue.databases.moments import to_column
from django_dbqueue.databases.statement import Row
from django_dbqueue.envelope import (
    WHOLE_QUEUE,
    Sealed,
    check_due,
    check_group,
    check_headers,
    check_lease,
    check_max_reads,
    check_moment,
    check_priority,
    check_queue,
    check_seconds,
)
from django_dbqueue.exceptions import InvalidMessage, UndecodableMessage
from django_dbqueue.keys import check_key, key_hash, lane_of
from django_dbqueue.spark.columns import BODIES, check_columns, value_of
from django_dbqueue.spark.staging_sql import WRITTEN

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch
    from pyspark.sql.types import StructField, StructType

_SHOWN: Final = 120
"""Characters of a bad row's payload in its error."""
_UNREADABLE: Final = (ValueError, OverflowError)
"""For Arrow values that Python can't hold: Spark strings that aren't UTF-8, days before year 1 or after 9999."""

Columns = Mapping[str, Sequence[Any]]
"""The values of each column of a batch, as Arrow gave them."""


def check_sent_group(name: object) -> str:
    """Return a group, or raise InvalidMessage. ``"*"`` says that the queue is one: its settings aren't known here."""
    return WHOLE_QUEUE if name == WHOLE_QUEUE else check_group(name)


@dataclass(frozen=True, slots=True)
class Sealing:
    """What all rows of a frame share: its columns, and the defaults of a message."""

    schema: StructType
    queue: str | None
    priority: int
    max_bytes: int
    group: str | None = None
    """Of rows without their own; ``"*"``: all messages are one group."""

    def check(self) -> None:
        """Raise InvalidPipeline for what no row could make valid."""
        check_columns(self.schema, queue=self.queue)

    def sealed(self, batches: Iterable[RecordBatch], *, partition: int) -> Iterator[Sealed]:
        """Seal every row; InvalidMessage says which one can't be a message, and why."""
        fields = {field.name: (place, field) for place, field in enumerate(self.schema)}
        [how] = [name for name in BODIES if name in fields]
        number = 0
        for batch in batches:
            before = number
            try:
                columns = {name: _values(batch, *field) for name, field in fields.items()}
            except _UNREADABLE:
                raise _unreadable(batch, fields, before, partition) from None
            try:
                for item in self._sealed(how, columns):
                    number += 1
                    yield item
            except (InvalidMessage, UndecodableMessage) as error:
                content, key = (columns[name][number - before] if name in columns else None for name in (how, "key"))
                raise _refusal(error, number + 1, partition, content, key=key) from None

    def _sealed(self, how: str, columns: Columns) -> Iterator[Sealed]:
        """Check, column by column, what ``seal`` checks; rows are taken in order."""

        def values_of(name: str, check: Callable[[object], object], unsaid: object = None) -> Iterable[object]:
            if name not in columns:
                return repeat(unsaid)
            return (unsaid if value is None else check(value) for value in columns[name])

        for (body, kind, _), queue, key, headers, priority, max_reads, lease, group, delay, at, _ in zip(
            self._bodies(how, columns),
            self._queues(columns),
            values_of("key", check_key),
            values_of("headers", _headers),
            values_of("priority", check_priority, self.priority),
            values_of("max_reads", check_max_reads),
            values_of("lease", check_lease),
            values_of("group", self._group, self.group),
            values_of("delay", partial(check_seconds, "delay"), 0.0),
            values_of("at", check_moment),
            map(check_due, columns.get("delay", repeat(None)), columns.get("at", repeat(None))),
            strict=False,
        ):
            named, live = (None, None) if key is None else (key_hash(queue, key), 1)
            lane = None if group is None else lane_of(queue, group)
            content = (body, kind, headers, priority, max_reads, lease, lane, group)
            yield Sealed(queue, key, named, live, *content, delay, at)

    def _group(self, name: object) -> str:
        if self.group == WHOLE_QUEUE != name:
            raise InvalidMessage(
                f"All messages are one group, by the option group={WHOLE_QUEUE!r}, so none can name another one: leave "
                f"group={name!r} out, or use another queue."
            )
        return check_sent_group(name)

    def _bodies(self, how: str, columns: Columns) -> Iterator[tuple[str, str, str | None]]:
        """Return what ``encode`` returns; a frame's values have no types beside them, since Spark's become strings."""
        encode = partial(codecs.encode, max_bytes=self.max_bytes)
        if how == "payload":
            return map(encode, columns[how])
        if how == "json" and None not in columns[how]:
            return codecs.encode_texts(columns[how], max_bytes=self.max_bytes)
        if how == "json":
            return (encode(_payload(text)) for text in columns[how])
        return map(self._stored_body, columns[how], columns["content_type"])

    def _stored_body(self, body: str | None, kind: str | None) -> tuple[str, str, None]:
        """Take a body as it is, up to the size that any text may have."""
        if body is None:
            raise InvalidMessage("The column 'body' is NULL: only a body that was stored in the queue can be enqueued.")
        if "\0" in body:
            raise InvalidMessage("The column 'body' has a NUL character, which PostgreSQL can't store: leave it out.")
        codecs.encode(body, max_bytes=self.max_bytes)
        return body, _content_type(kind), None

    def _queues(self, columns: Columns) -> Iterable[object]:
        if "queue" not in columns:
            return repeat(self.queue)
        return (check_queue(self.queue if name is None else name) for name in columns["queue"])


def _values(batch: RecordBatch, place: int, field: StructField) -> list[object]:
    convert, column = value_of(field), batch.column(place)
    values: list[object] = _moments(column) if field.name == "at" else column.to_pylist()
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _unreadable(
    batch: RecordBatch, fields: Mapping[str, tuple[int, StructField]], before: int, partition: int
) -> InvalidMessage:
    """Return an error that names the first row of a batch whose values Python can't hold."""
    for row in range(batch.num_rows):
        for name, field in fields.items():
            try:
                _values(batch.slice(row, 1), *field)
            except _UNREADABLE as error:
                return InvalidMessage(
                    f"Row {before + row + 1:,} of partition {partition} can't be a message: its column {name!r} "
                    f"can't be read ({error}). Strings must be UTF-8, and days must be in the years 1 to 9999."
                )
    raise AssertionError("unreachable")  # pragma: no cover


def _moments(column: Array) -> list[object]:
    import pyarrow as pa

    return list(column.cast(pa.timestamp("us", "UTC")).to_pylist())  # only UTC, no other zone to look up row by row


def _payload(text: str | None) -> Any:
    """Read the payload of JSON text."""
    if text is None:
        raise InvalidMessage("The column 'json' is NULL, which is not text: write 'null' for JSON's null.")
    return codecs.decode_json(text)


def _headers(value: object) -> str | None:
    return check_headers(codecs.decode_headers(value) if isinstance(value, str) else value)


def _content_type(kind: str | None) -> str:
    """Return the content type of a body that is taken as it is: it isn't decoded, and needn't be readable."""
    if kind is None or not (kind.isascii() and kind.isprintable() and len(kind) <= 16):
        raise InvalidMessage(f"{kind!r} is not a content type: it must be 1 to 16 ASCII characters, such as json.")
    return kind


def _refusal(error: Exception, number: int, partition: int, content: object, *, key: object) -> InvalidMessage:
    shown = repr(content[: _SHOWN + 1] if isinstance(content, str | bytes) else content)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    named = "" if key is None else f" (key {str(key)[:_SHOWN]!r})"
    return InvalidMessage(f"Row {number:,} of partition {partition}{named} can't be a message: {error} It is {shown}.")


def row_of(item: Sealed, vendor: str) -> Row:
    """Return what the statements of a write take: the values of ``staging_sql.WRITTEN``."""
    at: Any = None if item.at is None else to_column(item.at, vendor)  # what the driver takes
    return item._replace(at=at)[: len(WRITTEN)]
