"""A frame's rows as the queue's: every row passes ``envelope.seal``, and one that doesn't is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from django_dbqueue import codecs
from django_dbqueue.databases.staging import STAGED
from django_dbqueue.envelope import Envelope, Sealed, seal
from django_dbqueue.exceptions import InvalidMessage, UndecodableMessage
from django_dbqueue.spark.columns import BODIES, check_columns, value_of
from django_dbqueue.spark.connection import to_column

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch
    from pyspark.sql.types import StructField, StructType

_AS_STAGED: Final = attrgetter(*STAGED[:-2], "delay", "at")
_SHOWN: Final = 120
"""Characters of a bad row's payload in its error."""
_SAID: Final = ("content_type", "queue", "key", "delay", "at", "priority", "max_reads", "lease", "headers")


@dataclass(frozen=True, slots=True)
class Sealing:
    """What all rows of a frame share: its columns, and what holds for a message that doesn't say it."""

    schema: StructType
    queue: str | None
    priority: int
    max_bytes: int

    def check(self) -> None:
        """Refuse, by InvalidPipeline, what no row could make good."""
        check_columns(self.schema, queue=self.queue)

    def sealed(self, batches: Iterable[RecordBatch], *, partition: int) -> Iterator[Sealed]:
        """Seal every row; InvalidMessage says which one can't be a message, and why."""
        fields = {field.name: (place, field) for place, field in enumerate(self.schema)}
        [how] = [name for name in BODIES if name in fields]
        number = 0
        for batch in batches:
            said = [_values(batch, *fields[name]) if name in fields else repeat(None) for name in (how, *_SAID)]
            for content, *others in zip(*said, strict=False):
                number += 1
                try:
                    yield self._seal(how, content, *others)
                except (InvalidMessage, UndecodableMessage) as error:
                    raise _refusal(error, number, partition, content, key=others[_SAID.index("key")]) from None

    def _seal(
        self, how: str, content: Any, kind: Any, queue: Any, key: Any, delay: Any, at: Any, *others: Any
    ) -> Sealed:
        priority, max_reads, lease, headers = others
        name: Any = self.queue if queue is None else queue
        if isinstance(headers, str):
            headers = codecs.decode_headers(headers)
        stands = how == "body"
        payload = content if how == "payload" or stands else _payload(content)
        item = seal(
            Envelope(payload, key, delay, at, priority, max_reads, lease, headers),
            queue=name,
            priority=self.priority,
            max_bytes=self.max_bytes,
        )
        return item._replace(body=content, content_type=_content_type(content, kind)) if stands else item


def _values(batch: RecordBatch, place: int, field: StructField) -> list[Any]:
    convert, column = value_of(field), batch.column(place)
    values: list[Any] = _moments(column) if field.name == "at" else column.to_pylist()
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _moments(column: Array) -> list[Any]:
    import pyarrow as pa

    return list(column.cast(pa.timestamp("us", "UTC")).to_pylist())  # no zone but UTC to look up, row by row


def _payload(text: str | None) -> Any:
    """Read the payload of JSON text."""
    if text is None:
        raise InvalidMessage("The column 'json' is NULL, which is no text: write 'null' for JSON's null.")
    return codecs.decode_json(text)


def _content_type(body: str | None, kind: str | None) -> str:
    """Return the content type of a body that is taken as it stands: it isn't decoded, and so needn't be readable."""
    if body is None:
        raise InvalidMessage("The column 'body' is NULL: only a body that stood in the queue can go there again.")
    if kind is None or not (kind.isascii() and kind.isprintable() and len(kind) <= 16):
        raise InvalidMessage(f"{kind!r} is no content type: it must be 1 to 16 ASCII characters, such as json.")
    return kind


def _refusal(error: Exception, number: int, partition: int, content: Any, *, key: Any) -> InvalidMessage:
    shown = repr(content[: _SHOWN + 1] if isinstance(content, str | bytes) else content)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    named = "" if key is None else f" (key {str(key)[:_SHOWN]!r})"
    return InvalidMessage(f"Row {number:,} of partition {partition}{named} can't be a message: {error} It is {shown}.")


def row_of(item: Sealed, vendor: str) -> tuple[Any, ...]:
    """Return what the statements of a write take: the values of ``databases.staging.STAGED``."""
    values: tuple[Any, ...] = _AS_STAGED(item)
    return values if item.at is None else (*values[:-1], to_column(item.at, vendor))
