"""Sessions leave a server that takes no writes any more: after a failover the name in the settings leads to another.

A failover may cut no connection. The session whose write is refused ends then, whatever its handler makes of the error.
So do, before the next message, all that this process had opened to that database: none needs a refusal of its own.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Final

from django.db.utils import DatabaseErrorWrapper

from django_dbqueue.databases import means
from django_dbqueue.worker.traces import may_be_read_only

REFUSED_AT: Final[dict[str, float]] = {}
"""When a server last refused to write, by alias and the monotonic clock."""


class RefusalsNoted(DatabaseErrorWrapper):
    """Django's context of each call of a driver, which also notes that the server takes no writes."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._connection = connection
        self.opened_at = 0.0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Note a refusal, unless the handler may have made its own session or transaction read-only."""
        if error is not None and means(error, "demoted") and not may_be_read_only(self._connection):
            REFUSED_AT[self._connection.alias] = time.monotonic()
        super().__exit__(kind, error, traceback)


def note_refusals(connection: Any) -> None:
    """Note when each session of a connection was opened, and whether its server refuses to write."""
    connection.wrap_database_errors = refusals = RefusalsNoted(connection)
    connect = connection.connect

    def connect_and_note() -> None:
        refusals.opened_at = time.monotonic()
        connect()

    connection.connect = connect_and_note


def is_demoted(connection: Any) -> bool:
    """Return whether a write was refused, here or in another thread, since this session was opened."""
    refusals = connection.wrap_database_errors
    if connection.connection is None or not isinstance(refusals, RefusalsNoted):
        return False
    return refusals.opened_at <= REFUSED_AT.get(connection.alias, -1.0)
