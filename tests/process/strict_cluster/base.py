"""The connection, whose cursors refuse what the cluster would refuse, in its words."""

from __future__ import annotations

from typing import Any

from django.db.backends.mysql import base

REFUSAL = (1105, "Percona-XtraDB-Cluster prohibits use of GET_LOCK with pxc_strict_mode = ENFORCING")


class StrictCursor:
    """A cursor of MySQLdb, as Django wraps it."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def __iter__(self) -> Any:
        return iter(self._cursor)

    def execute(self, query: str, args: Any = None) -> Any:
        if "GET_LOCK" in query:
            raise base.Database.OperationalError(*REFUSAL)
        return self._cursor.execute(query, args)


class DatabaseWrapper(base.DatabaseWrapper):
    def create_cursor(self, name: Any = None) -> StrictCursor:
        return StrictCursor(super().create_cursor(name))
