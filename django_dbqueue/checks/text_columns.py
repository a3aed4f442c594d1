"""MySQL and MariaDB: whether text columns are as their fields say, and the statements that make them so again.

A column that its field says nothing of would get the database's default, which may lack characters; and somebody may
have converted a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from django.apps import apps
from django.core import checks
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Value

from django_dbqueue.databases.mysql_facts import collations

WHOLE: Final = ("ascii", "utf8mb4")
"""The character sets of our columns: what is in ASCII by its nature, and every character."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column that is not as its field says."""

    table: str
    name: str
    characters: str
    collation: str
    definition: str
    """What the field says, for MODIFY."""


def spoiled(connection: BaseDatabaseWrapper) -> list[TextColumn]:
    """Return the columns of our tables that have another character set or collation than their fields."""
    wanted = {
        (model._meta.db_table, field.column): field
        for model in apps.get_app_config("django_dbqueue").get_models()
        for field in model._meta.local_concrete_fields
    }
    question = collations(sorted({table for table, _column in wanted}))
    with connection.cursor() as cursor:
        cursor.execute(question.sql, question.params)
        found = cursor.fetchall()
    columns = []
    for table, column, characters, collation in found:
        field = wanted.get((table, column))
        db_type = (field.db_type(connection) or "") if field else ""
        if field and f"CHARACTER SET {characters} COLLATE {collation}" not in db_type:
            columns.append(TextColumn(table, column, characters, collation, _definition(field, db_type)))
    return columns


def mended(columns: Iterable[TextColumn], connection: BaseDatabaseWrapper) -> str:
    """Return the statements that make the columns what their fields say, a statement for each table."""
    quote = connection.ops.quote_name
    tables = groupby(columns, lambda column: column.table)
    return " ".join(
        f"ALTER TABLE {quote(table)} "
        f"{', '.join(f'MODIFY {quote(column.name)} {column.definition}' for column in spoiled_ones)};"
        for table, spoiled_ones in tables
    )


def listed(columns: Iterable[TextColumn]) -> str:
    """Return the columns as a text, by table."""
    tables = groupby(columns, lambda column: column.table)
    return "; ".join(f"{table} ({', '.join(column.name for column in those)})" for table, those in tables)


def check_columns(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Warn of columns that can't hold every character."""
    poor = [column for column in spoiled(connection) if column.characters not in WHOLE]
    if poor:
        yield checks.Warning(
            f"Columns in the database {connection.alias!r} can't hold every character (such as emoji), so what has "
            f"others is refused: {listed(poor)}.",
            hint="They were converted, or made by an older checkout. This makes them as they should be: "
            f"{mended(poor, connection)}",
            id="dbqueue.W016",
        )


def _definition(field: Field[Any, Any], db_type: str) -> str:
    default = getattr(field, "db_default", None)
    if isinstance(default, Value):
        default = default.value
    begins = f" DEFAULT '{default}'" if isinstance(default, str) else ""
    return f"{db_type} {'NULL' if field.null else 'NOT NULL'}{begins}"
