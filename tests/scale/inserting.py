"""Rows by the million: INSERTs whose columns are SQL of a row's number."""

from __future__ import annotations

from typing import Any, Final

from django.db import connection
from django.db.models import AutoField, BooleanField

from django_dbqueue.databases import Server
from django_dbqueue.databases.moments import to_column
from django_dbqueue.models.fields import clock

AT_ONCE: Final = 500_000
"""Rows of one INSERT."""


class Inserting:
    """``n`` is the number of a row, from 0; a per cent sign is written twice."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def _joined(self, *parts: str) -> str:
        return f"CONCAT({', '.join(parts)})" if connection.vendor == "mysql" else f"({' || '.join(parts)})"

    def _at(self, seconds: str) -> str:
        return self.server.plus(self.server.now, seconds)

    def _back_from(self, beginning: dict[str, int], seconds: str) -> str:
        moment = clock("default").replace(second=0, microsecond=0, **beginning)
        return self.server.plus(f"'{to_column(moment, connection.vendor)}'", seconds)

    def _insert(self, model: type[Any], count: int, **columns: str) -> None:
        """Insert rows 0 to count - 1 of these columns, each SQL of n."""
        quote = connection.ops.quote_name
        columns = self._unsaid(model, columns) | columns
        names = ", ".join(quote(name) for name in columns)
        for first in range(0, count, AT_ONCE):
            last = min(first + AT_ONCE, count) - 1
            self._run(
                f"INSERT INTO {quote(model._meta.db_table)} ({names}) "
                "WITH RECURSIVE k (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k WHERE i < 999), "
                f"numbers (n) AS (SELECT {first} + a.i * 1000 + b.i FROM k AS a CROSS JOIN k AS b "
                f"WHERE a.i <= {(last - first) // 1000}) "
                f"SELECT {', '.join(columns.values())} FROM numbers WHERE n <= {last}"
            )

    def _unsaid(self, model: type[Any], given: dict[str, str]) -> dict[str, str]:
        """What must stand in columns that nobody has said, and that have no default."""
        found = {}
        for field in model._meta.concrete_fields:
            has_own = field.null or field.has_db_default() or field.generated or isinstance(field, AutoField)
            if has_own or field.column in given:
                continue
            if field.unique:
                found[field.column] = self._joined("'number-'", "n")
                continue
            found[field.column] = {"CharField": "''", "TextField": "''", "DateTimeField": self.server.now}.get(
                field.get_internal_type(), "FALSE" if isinstance(field, BooleanField) else "0"
            )
        return found

    @staticmethod
    def _run(sql: str) -> None:
        with connection.cursor() as cursor:
            if connection.vendor == "mysql":
                cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute(sql, ())
            if connection.vendor == "mysql":
                cursor.execute("SET SESSION sql_log_bin = 1")
