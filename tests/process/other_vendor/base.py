"""A database of a vendor that the queue doesn't know: SQLite by another name, whose driver is asked in vain."""

from __future__ import annotations

from typing import Any

from django.db.backends.sqlite3 import base


class _Driver:
    """A driver's connection with what every driver has, and nothing more."""

    def __init__(self, connection: Any) -> None:
        self.cursor = connection.cursor
        self.close = connection.close
        self.commit = connection.commit
        self.rollback = connection.rollback
        self.isolation_level = None


class DatabaseWrapper(base.DatabaseWrapper):
    vendor = "other"

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        return _Driver(super().get_new_connection(conn_params))

    def create_cursor(self, name: str | None = None) -> Any:
        return self.connection.cursor(factory=base.SQLiteCursorWrapper)
