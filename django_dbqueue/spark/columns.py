"""Which columns a frame for the queue may have, and how their values become Python's; refused on the driver.

Inside a struct, a map or an array, and as a payload by themselves, decimals become strings of their digits, and dates
and timestamps become ISO 8601 (those with a time zone in UTC, with their offset), since JSON has none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final

from pyspark.sql import types as spark

from django_dbqueue.exceptions import InvalidPipeline

Convert = Callable[[Any], object]

BODIES: Final = ("payload", "json", "body")
"""Columns of which a frame has one: any value, the text of a JSON document, or a body as it is stored in the queue."""
_TEXT: Final = (spark.StringType, spark.CharType, spark.VarcharType)
_WHOLE: Final = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
_SECONDS: Final = (*_WHOLE, spark.FloatType, spark.DoubleType, spark.DecimalType, spark.DayTimeIntervalType)
_ALLOWED: Final[dict[str, tuple[tuple[type[spark.DataType], ...], str]]] = {
    "json": (_TEXT, "a string of JSON"),
    "body": (_TEXT, "a string"),
    "content_type": (_TEXT, "a string: json, text or bytes"),
    "queue": (_TEXT, "a string"),
    "key": (_TEXT, "a string (cast it)"),
    "group": (_TEXT, "a string (cast it)"),
    "delay": (_SECONDS, "a number of seconds or an interval"),
    "at": ((spark.TimestampType,), "a timestamp with a time zone (not timestamp_ntz, which has none)"),
    "priority": (_WHOLE, "a whole number"),
    "max_reads": (_WHOLE, "a whole number"),
    "lease": (_SECONDS, "a number of seconds or an interval"),
    "headers": ((*_TEXT, spark.StructType, spark.MapType), "a struct, a map, or a string of a JSON object"),
}
COLUMNS: Final = ("payload", *_ALLOWED)


def check_columns(schema: spark.StructType, *, queue: str | None) -> None:
    """Raise InvalidPipeline for a frame that can't go into the queue whatever its rows hold."""
    names = schema.fieldNames()
    for name in names:
        if name not in COLUMNS:
            close = get_close_matches(name, COLUMNS, 1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            raise InvalidPipeline(
                f"A message has no column {name!r}: {meant}Choose from {', '.join(COLUMNS)}, and put everything else "
                "into the payload: struct(...) AS payload. Nothing was written."
            )
    if doubled := [name for name, times in Counter(names).items() if times > 1]:
        raise InvalidPipeline(f"The frame has the column {doubled[0]!r} twice: keep one. Nothing was written.")
    bodies = [name for name in BODIES if name in names]
    if len(bodies) != 1:
        has = " and ".join(map(repr, bodies)) or "none of them"
        raise InvalidPipeline(
            "A message needs a payload: the frame must have exactly one of the columns 'payload' (any value), 'json' "
            f"(JSON text) and 'body' with 'content_type' (as stored in the queue), but it has {has}. Nothing was "
            "written."
        )
    if ("body" in names) != ("content_type" in names):
        raise InvalidPipeline("The columns 'body' and 'content_type' go together: give both, or 'payload' or 'json'.")
    if queue is None and "queue" not in names:
        raise InvalidPipeline(
            "Set the queue of the messages, with the option 'queue' or a column 'queue'. Nothing was written."
        )
    for field in schema:
        _check_type(field)


def _check_type(field: spark.StructField) -> None:
    allowed, words = _ALLOWED.get(field.name, ((spark.DataType,), ""))
    if not isinstance(field.dataType, allowed):
        raise InvalidPipeline(
            f"The column {field.name!r} must be {words}, but it is {field.dataType.simpleString()}. Nothing was "
            "written."
        )
    if field.name in ("payload", "headers") and not isinstance(field.dataType, spark.BinaryType):
        converter(field.dataType, where=field.name)


def value_of(field: spark.StructField) -> Convert | None:
    """Return the conversion of a column's values for an envelope; None if they need none."""
    if field.name in ("payload", "headers"):
        return None if isinstance(field.dataType, spark.BinaryType) else converter(field.dataType, where=field.name)
    if field.name in ("delay", "lease") and isinstance(field.dataType, spark.DecimalType):
        return float
    return None


def converter(kind: spark.DataType, *, where: str) -> Convert | None:
    """Return the conversion of a value from Arrow to JSON; None if it needs none. InvalidPipeline if there is none."""
    if isinstance(kind, (*_TEXT, *_WHOLE, spark.FloatType, spark.DoubleType, spark.BooleanType, spark.NullType)):
        return None
    if isinstance(kind, spark.DecimalType):
        return _digits
    if isinstance(kind, spark.TimestampType):
        return _moment
    if isinstance(kind, spark.DateType | spark.TimestampNTZType):
        return _iso
    if isinstance(kind, spark.StructType):
        return _struct(kind, where)
    if isinstance(kind, spark.ArrayType):
        each = converter(kind.elementType, where=f"{where}[]")
        return None if each is None else _Array(each)
    if isinstance(kind, spark.MapType):
        if not isinstance(kind.keyType, _TEXT):
            raise InvalidPipeline(
                f"{where!r} is a map with keys of {kind.keyType.simpleString()}, but keys in JSON are strings: cast "
                "them. Nothing was written."
            )
        return _Map(converter(kind.valueType, where=f"{where}{{}}"))
    hint = "take base64() of it, or make it the payload itself" if isinstance(kind, spark.BinaryType) else "cast it"
    raise InvalidPipeline(
        f"{where!r} is {kind.simpleString()}, which JSON can't represent: {hint}. Nothing was written."
    )


def _struct(kind: spark.StructType, where: str) -> Convert | None:
    names = kind.fieldNames()
    if doubled := [name for name, times in Counter(names).items() if times > 1]:
        raise InvalidPipeline(
            f"{where!r} is a struct with two fields named {doubled[0]!r}: rename one. Nothing was written."
        )
    found = {field.name: converter(field.dataType, where=f"{where}.{field.name}") for field in kind}
    changed = {name: each for name, each in found.items() if each is not None}
    return _Struct(changed) if changed else None


class _Array:
    def __init__(self, each: Convert) -> None:
        self.each = each

    def __call__(self, value: Iterable[object]) -> list[object]:
        return [None if item is None else self.each(item) for item in value]


class _Map:
    def __init__(self, each: Convert | None) -> None:
        self.each = each

    def __call__(self, value: Iterable[tuple[str, object]]) -> dict[str, object]:
        if self.each is None:
            return dict(value)
        return {key: None if item is None else self.each(item) for key, item in value}


class _Struct:
    def __init__(self, changed: dict[str, Convert]) -> None:
        self.changed = changed

    def __call__(self, value: dict[str, object]) -> dict[str, object]:
        for name, convert in self.changed.items():
            if value[name] is not None:
                value[name] = convert(value[name])
        return value


def _digits(value: Decimal) -> str:
    return format(value, "f")


def _moment(value: datetime) -> str:
    return str(value.astimezone(UTC).isoformat())


def _iso(value: date) -> str:
    return str(value.isoformat())
