"""Django's connections of the calling thread, restored to order whatever happened to them."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from multiprocessing.connection import wait
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.databases import terms_of
from django_dbqueue.worker.demotion import REFUSED_AT, is_demoted, note_refusals
from django_dbqueue.worker.traces import is_as_made, note_calls, watch


def do_without_pools() -> None:
    """Connect without Django's pools (PostgreSQL) from now on, in this process and in those that it forks.

    A pool doesn't survive a fork: two children would talk over one socket. And each thread here keeps its own
    connection.
    """
    for alias, configured in connections.settings.items():
        if configured["OPTIONS"].get("pool"):
            pooled: Any = connections[alias]
            pooled.close()
            pooled.close_pool()
            del configured["OPTIONS"]["pool"]


class Used(threading.local):
    """Whether the calling thread was noted, and whether it keeps no list of its statements where DEBUG is on."""

    is_noted = False
    forgets = False


class NotingConnections:
    """What ``note_use`` adds to ``django.db.connections``: each thread that gets a connection object is noted.

    What is sent on that connection is watched.
    """

    used = Used()

    def create_connection(self, alias: str) -> Any:
        """Make a thread's first connection object, or the next one after that was dropped."""
        self.used.is_noted = True
        connection: Any = super().create_connection(alias)  # type: ignore[misc]
        watch(connection)
        note_refusals(connection)
        if self.used.forgets:
            connection.queries_log = deque(maxlen=0)
        return connection

    def __setitem__(self, alias: str, connection: Any) -> None:
        self.used.is_noted = True
        super().__setitem__(alias, connection)  # type: ignore[misc]


def note_use() -> None:
    """Spare threads that never have a connection the search for one after each message; in a child, before threads."""
    connections.__class__ = type("ConnectionHandler", (NotingConnections, type(connections)), {})
    note_calls()
    forget_queries()


def forget_queries() -> None:
    """Keep no list of what the calling thread, which runs no handlers, sends where DEBUG is on: nobody reads it."""
    NotingConnections.used.forgets = True


def leave_clean() -> None:
    """Undo what a handler left behind: an open transaction, autocommit off, a connection that is gone or leads to a
    demoted writer, a session that isn't as the project made it, the list of its statements where DEBUG is on.

    Raises nothing: whatever can't be restored (MySQL's client refuses to close what is closed; third-party drivers
    raise whatever they like) is closed.
    """
    if isinstance(connections, NotingConnections) and not connections.used.is_noted:
        return
    for connection in connections.all(initialized_only=True):
        try:
            _leave_clean(connection)
        except BaseException:
            discard(connection.alias)


def _leave_clean(connection: BaseDatabaseWrapper) -> None:
    if connection.in_atomic_block or connection.needs_rollback or not _is_sound(connection):
        discard(connection.alias)
        return
    connection.queries_log.clear()
    if connection.settings_dict["CONN_MAX_AGE"] == 0:
        _keep(connection)
    connection.close_if_unusable_or_obsolete()


def discard(alias: str) -> None:
    """Close this thread's connection, whatever its state (which rolls back); the next use opens a new one."""
    close_raw(connections[alias])
    with contextlib.suppress(AttributeError):
        del connections[alias]


def leave_demoted() -> None:
    """Close this thread's connections to a server that has refused to write since they were opened."""
    for connection in connections.all(initialized_only=True) if REFUSED_AT else ():
        if is_demoted(connection):
            discard(connection.alias)


def leave_ended(alias: str) -> None:
    """Close this thread's connection if the server has ended its session: nobody has used it for long.

    Where the driver shows its socket, it costs no statement while the server has sent nothing unasked.
    """
    connection = connections[alias]
    if (raw := connection.connection) is None or (hasattr(raw, "fileno") and not wait([raw.fileno()], 0)):
        return
    if not connection.is_usable():
        discard(alias)


def close_raw(connection: BaseDatabaseWrapper) -> None:
    """Close the driver's connection, whatever its state; the thread that opened it may have ended."""
    with contextlib.suppress(BaseException):
        if connection.connection is not None:
            connection.connection.close()


def discard_all() -> None:
    """Close all connections of this thread."""
    for connection in connections.all(initialized_only=True):
        discard(connection.alias)


def _keep(connection: Any) -> None:
    """Keep a connection whose CONN_MAX_AGE is 0, Django's default: a worker would otherwise connect for every message.

    It is checked before its next use, since the server may have closed it meanwhile.
    """
    connection.close_at = None
    connection.health_check_enabled = True
    connection.health_check_done = False


def _is_sound(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the driver's connection is absent, or open, with nothing begun by raw SQL, and as it was made."""
    return connection.connection is None or (
        is_open(connection)
        and bool(connection.autocommit)
        and not terms_of(connection.vendor).driver.has_begun(connection.connection)
        and not is_demoted(connection)
        and is_as_made(connection)
    )


def is_open(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the driver's connection, which exists, is still open."""
    return terms_of(connection.vendor).driver.is_open(connection.connection)
