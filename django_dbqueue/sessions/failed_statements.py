"""Statements that fail inside a transaction, noted for whom a swallowed error would mislead.

On MySQL a deadlock rolls back the whole transaction. A caller who swallows the error continues in a new one, and would
commit half of what it wrote. So Django learns of the rollback: it then refuses further statements, and commits nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_dbqueue.databases import server_of
from django_dbqueue.sessions.retry import is_victim
from django_dbqueue.sessions.transaction_begin import Context, Execute


class FailedStatements:
    """A watch on the connections that a block uses. ``failed`` is called when a statement fails in a transaction."""

    __slots__ = ("_failed", "_has_ended")

    def __init__(self, failed: Callable[[], object]) -> None:
        self._failed = failed
        self._has_ended = False

    def watch(self, connection: Any) -> None:
        """Watch the current thread's connection, too."""
        if self._run not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._run)

    def end(self) -> None:
        """Watch no more. Each connection is left at its next statement, in its own thread."""
        self._has_ended = True

    def _run(self, execute: Execute, sql: str, params: Any, many: bool, context: Context) -> object:
        connection = context["connection"]
        if self._has_ended:
            connection.execute_wrappers.remove(self._run)
            return execute(sql, params, many, context)
        try:
            return execute(sql, params, many, context)
        except Exception as error:
            if connection.in_atomic_block:
                self._failed()
                if is_victim(error) and not server_of(connection).keeps_savepoints:
                    connection.set_rollback(True)
            raise
