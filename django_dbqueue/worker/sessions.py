"""Django's connections of the calling thread, brought back to order whatever happened to them."""

from __future__ import annotations

import contextlib
from typing import Any

from django.db import Error, connections


def leave_clean() -> None:
    """Undo what a handler left behind: an open transaction, autocommit off, a connection that is gone."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block or connection.needs_rollback or not _autocommits(connection):
            discard(connection.alias)
            continue
        try:
            connection.close_if_unusable_or_obsolete()
        except Error:  # MySQL's client refuses to close what is closed
            discard(connection.alias)


def discard(alias: str) -> None:
    """Close this thread's connection in whatever state it is (which rolls back); the next use makes a new one."""
    raw: Any = connections[alias].connection
    with contextlib.suppress(Exception):
        if raw is not None:
            raw.close()
    with contextlib.suppress(AttributeError):
        del connections[alias]


def discard_all() -> None:
    """Close all connections of this thread."""
    for connection in connections.all(initialized_only=True):
        discard(connection.alias)


def _autocommits(connection: Any) -> bool:
    return connection.connection is None or bool(connection.autocommit)
