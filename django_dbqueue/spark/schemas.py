"""The two tables that can be read, and Spark's types of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.spark.source_options import Options
from django_dbqueue.statements.message_columns import ARCHIVED_COLUMNS, MESSAGE_COLUMNS, MOMENTS

WIDE: Final = ("body", "headers", "error")
"""Columns whose values can be long."""


@dataclass(frozen=True, slots=True)
class Source:
    """A table, its columns in order, and the moment that ``since`` and ``until`` refer to."""

    name: str
    table: str
    columns: Mapping[str, DataType]
    optional: frozenset[str]
    """Columns that can be NULL."""
    moment: str
    has_moment_index: bool

    @property
    def schema(self) -> StructType:
        """All columns."""
        return StructType([StructField(name, kind) for name, kind in self.columns.items()])

    def checked(self, schema: StructType) -> StructType:
        """Return a schema that asks for columns of this source; InvalidPipeline says which it doesn't have."""
        if not schema.fields:
            raise InvalidPipeline(f"The schema names no column. {self._there_are()}")
        names = [field.name.lower() for field in schema.fields]
        for field, name in zip(schema.fields, names, strict=True):
            if names.count(name) > 1:
                raise InvalidPipeline(f"The schema names the column {field.name!r} more than once.")
            if name not in self.columns:
                close = get_close_matches(name, self.columns, 1)
                meant = f"Did you mean {close[0]!r}? " if close else ""
                raise InvalidPipeline(f"{self.name} have no column {field.name!r}. {meant}{self._there_are()}")
            kind = self.columns[name]
            if field.dataType != kind:
                raise InvalidPipeline(
                    f"The column {field.name!r} of the {self.name} is {kind.simpleString()}, not "
                    f"{field.dataType.simpleString()}: write {name + ' ' + kind.simpleString()!r} in the schema, and "
                    "cast afterwards."
                )
            if not field.nullable and name in self.optional:
                raise InvalidPipeline(
                    f"The column {field.name!r} of the {self.name} can be NULL: leave NOT NULL out of the schema."
                )
        return schema

    def _there_are(self) -> str:
        return (
            "The columns are " + ", ".join(f"{name} {kind.simpleString()}" for name, kind in self.columns.items()) + "."
        )


_KINDS: Final[dict[str, DataType]] = {
    **dict.fromkeys((*MOMENTS, "archived_at"), TimestampType()),
    **dict.fromkeys(("id", "message_id", "conn_id", "worker_id", "claim_token", "flow"), LongType()),
    **dict.fromkeys(("read_count", "max_reads", "crashes"), IntegerType()),
    "priority": ShortType(),
    "lease_seconds": DoubleType(),
}
"""Of columns that aren't text."""


def _typed(names: Iterable[str]) -> dict[str, DataType]:
    return {name: _KINDS.get(name, StringType()) for name in names}


_OPTIONAL: Final = frozenset(
    {"key", "claim_token", "max_reads", "headers", "group_name", "flow", "claimed_at", "error"}
)

MESSAGES: Final = Source(
    name="messages",
    table=Tables.message,
    columns=_typed(name for name in MESSAGE_COLUMNS if name not in ("key_hash", "live", "lane")),
    optional=_OPTIONAL | {"conn_id", "worker_id", "available_at", "lease_seconds", "finished_at"},
    moment="created_at",
    has_moment_index=False,
)
HISTORY: Final = Source(
    name="history",
    table=Tables.archived,
    columns=_typed(("id", "message_id", "outcome", *ARCHIVED_COLUMNS, "archived_at")),
    optional=_OPTIONAL,
    moment="finished_at",
    has_moment_index=True,
)
SOURCES: Final = {source.name: source for source in (MESSAGES, HISTORY)}


def source_of(options: Options) -> Source:
    """Return what the option ``source`` names: the messages if it is not set."""
    return SOURCES[options.choice("source", SOURCES, MESSAGES.name)]


def with_id(schema: StructType) -> StructType:
    """Return a schema that has the id too, which tells a reader how far it has come."""
    if "id" in (name.lower() for name in schema.fieldNames()):
        return schema
    return StructType([*schema.fields, StructField("id", MESSAGES.columns["id"])])


def arrow_schema(schema: StructType) -> Any:
    """Return the schema of Arrow batches that Spark accepts for this one as they are."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
