"""Which of Spark's filters the database can answer, and which of those Spark must check again.

A filter that isn't returned to Spark is not evaluated again, so only filters that mean exactly the same in SQL are
kept. MySQL and MariaDB take 'a' and 'a ' for equal even in binary collations: there, equality of text narrows what is
read, and is returned to Spark too. Texts, and above all the enum, are never compared by < or >: an enum is ordered by
its index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.types import DataType, IntegralType, StringType, TimestampType

from django_dbqueue.databases import Server, Statement
from django_dbqueue.databases.moments import to_column
from django_dbqueue.spark.schemas import Source
from django_dbqueue.statements import scan_sql
from django_dbqueue.statuses import STATUSES

MOST_VALUES: Final = 1_000
"""How many values an IN may list; longer lists are left to Spark."""
_OPERATORS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """What a row must fulfil, the column that this is about, and whether it is all that the filter says."""

    column: str
    statement: Statement
    exact: bool
    finds: bool = False
    """Whether the column is equal to a value, so that an index can find the rows."""
    bounds: bool = False
    """Whether the column lies before or after a value, so that an index can find the stretch of the rows."""
    low: int | None = None
    high: int | None = None
    """For ``id``: the bounds that it sets."""


def condition_of(asked: Filter, source: Source, server: Server, vendor: str) -> Condition | None:
    """Return a filter as a condition; None if only Spark can answer it."""
    if isinstance(asked, Not):
        return _negated(condition_of(asked.child, source, server, vendor), asked.child)
    path: tuple[str, ...] = getattr(asked, "attribute", ())
    if len(path) != 1 or path[0].lower() not in source.columns:
        return None
    column = path[0].lower()
    if isinstance(asked, IsNull | IsNotNull):
        missing = scan_sql.missing(server, column)
        return Condition(column, missing if isinstance(asked, IsNull) else scan_sql.negated(missing), exact=True)
    kind = source.columns[column]
    exact = not isinstance(kind, StringType) or column == "status" or not server.padded_text
    if isinstance(asked, In):
        values = [value for value in asked.value if value is not None]
        if not 0 < len(values) <= MOST_VALUES or not all(_fits(value, column, kind) for value in values):
            return None
        return Condition(
            column,
            scan_sql.one_of(server, column, [_as_column(each, vendor) for each in values]),
            exact,
            finds=True,
        )
    operator, value = _OPERATORS.get(type(asked)), getattr(asked, "value", None)
    if operator is None or not _fits(value, column, kind) or (operator != "=" and isinstance(kind, StringType)):
        return None
    statement = scan_sql.compared(server, column, operator, _as_column(value, vendor))
    low, high = _bounds(operator, value) if column == "id" else (None, None)
    finds = operator == "="
    return Condition(column, statement, exact, finds, bounds=not finds, low=low, high=high)


def _negated(condition: Condition | None, asked: Filter) -> Condition | None:
    """Negate a condition: only an exact one, and none that treats NULL as a value."""
    if condition is None or not condition.exact or isinstance(asked, EqualNullSafe):
        return None
    if isinstance(asked, In) and None in asked.value:
        return None
    return Condition(condition.column, scan_sql.negated(condition.statement), exact=True)


def _fits(value: object, column: str, kind: DataType) -> bool:
    """Return whether every server can compare a column of this type with the value without conversion."""
    if isinstance(kind, StringType):
        if column == "status":
            return value in STATUSES
        return isinstance(value, str) and "\0" not in value and (value.isascii() or column not in _ASCII)
    if isinstance(kind, TimestampType):
        return isinstance(value, datetime) and value.tzinfo is not None
    return isinstance(kind, IntegralType) and isinstance(value, int) and not isinstance(value, bool)


_ASCII: Final = frozenset({"queue", "content_type", "outcome"})


def _as_column(value: object, vendor: str) -> object:
    return to_column(value, vendor) if isinstance(value, datetime) else value


def _bounds(operator: str, value: Any) -> tuple[int | None, int | None]:
    return {
        "=": (value, value),
        "<": (None, value - 1),
        "<=": (None, value),
        ">": (value + 1, None),
        ">=": (value, None),
    }[operator]


def narrowed(conditions: list[Condition], first: int, last: int) -> tuple[int, int]:
    """Return the ids that all conditions on them allow."""
    lows = [first, *_said(condition.low for condition in conditions)]
    highs = [last, *_said(condition.high for condition in conditions)]
    return max(lows), min(highs)


def _said(bounds: Iterator[int | None]) -> list[int]:
    return [bound for bound in bounds if bound is not None]
