"""A caller's transaction that sees the past, and MariaDB's ``innodb_snapshot_isolation``, on by default since 11.6.2.

At REPEATABLE READ, such a server raises an error (1020), and undoes the whole transaction, if a statement meets a row
that has changed since the transaction's first read: a claim that the heartbeat has extended, a key that was sent, a
failure group. None of the queue's statements relies on earlier reads. Each names the state and the token that it
leaves, or reads under a lock what is there now. So they are executed as on a server without that option; it still
applies to the caller's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.databases import SERVERS
from django_dbqueue.databases.statement import Params

_JUDGED: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
_ANSWER: Final = "_dbqueue_judges_by_snapshots"


@contextmanager
def seeing_what_is(connection: Any, *, whatever_the_level: bool = False) -> Iterator[None]:
    """Let the queue's statements in the caller's transaction see rows as they are now, as far as they lock them.

    The isolation level is taken from Django's settings. ``whatever_the_level`` is for rare operations, and also covers
    a caller that has set another level by hand; it costs a fifth of a statement's time on such a server.
    """
    words = SERVERS[connection.vendor].sees_what_is
    if not words or not connection.mysql_is_mariadb:
        yield
        return
    if (is_read_committed(connection) and not whatever_the_level) or not _judges_by_snapshots(connection):
        yield
        return

    def unjudged(execute: Callable[..., object], sql: str, params: Params, many: bool, context: object) -> object:
        return execute(words + sql if sql.startswith(_JUDGED) else sql, params, many, context)

    with connection.execute_wrapper(unjudged):
        yield


def is_read_committed(connection: Any) -> bool:
    """Return whether Django's settings say so, on MySQL or MariaDB."""
    return str(connection.isolation_level or "").lower() == "read committed"


def _judges_by_snapshots(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the server does so, asked once per thread."""
    if not hasattr(connection, _ANSWER):
        with connection.cursor() as cursor:
            cursor.execute("SHOW SESSION VARIABLES LIKE 'innodb_snapshot_isolation'")  # no error if it doesn't exist
            setattr(connection, _ANSWER, any(value == "ON" for _, value in cursor.fetchall()))
    return bool(getattr(connection, _ANSWER))
