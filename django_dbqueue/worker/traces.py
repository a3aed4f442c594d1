"""What a handler leaves in its session for the next handler: settings, another database, locks by name.

The server isn't asked. Django shows each statement before it is sent, without its parameters, so the same few texts
come again and again, and what was found out about each is remembered. Of the driver's connection it is compared what
its functions and attributes change. What a driver's own cursor sends isn't seen, nor what the project's functions and
triggers do on the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache, wraps
from typing import Any, Final

from django.db.backends.utils import CursorWrapper

from django_dbqueue.databases import terms_of
from django_dbqueue.databases.session_traces import Traces
from django_dbqueue.databases.statement import Params
from django_dbqueue.sessions.transaction_begin import Context, Execute


class Trace(IntEnum):
    """What of a session has to be undone."""

    NOTHING = 0
    READ_ONLY = 1
    """Nothing, but a transaction was to be read-only: that a write is refused says nothing of the server."""
    LOCKS = 2
    """Locks by name, which the session holds until it is told, or ends."""
    CHANGE = 3
    """The session isn't as the project made it, and must end."""


LONGEST: Final = 16_000
"""Characters of a text worth remembering."""
_MARKS: Final = ("'", '"', "`", "/*", "--", "#", "$", ";")
"""Without any of these a text has no literal, no name in quotes and no comment, and is one statement."""

_HARMLESS: Final = re.compile(
    r"INSERT|UPDATE|DELETE|REPLACE|MERGE|TABLE|BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE|EXPLAIN|"
    r"ANALYZE|SHOW|DESCRIBE|DESC|ALTER|DROP|TRUNCATE|RENAME|LOCK|UNLOCK|XA|FLUSH|OPTIMIZE|CHECK|REPAIR|KILL|"
    r"VACUUM|REINDEX|CLUSTER|COMMENT|GRANT|REVOKE|COPY|FETCH|MOVE|CLOSE|NOTIFY|REFRESH|CHECKPOINT"
)
"""First words of statements that change no session. A transaction left open is noticed elsewhere."""
_READ_ONLY: Final = re.compile(r"(?:BEGIN|START|SET)\b.*READ[\s_]+ONLY\b", re.IGNORECASE | re.DOTALL)
_TEMPORARY: Final = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL)\s+)?TEMP", re.IGNORECASE)


class Noted:
    """An execute wrapper that notes what the statements of one connection leave behind."""

    __slots__ = ("of_driver", "trace")

    def __init__(self) -> None:
        self.trace = Trace.NOTHING
        self.of_driver: object = None

    def __call__(self, execute: Execute, sql: Any, params: Params, many: bool, context: Context) -> object:
        if self.trace != Trace.CHANGE:
            self.trace = max(self.trace, _seen_in(context["connection"].vendor, sql))
        return execute(sql, params, many, context)


def watch(connection: Any) -> None:
    """Note what statements leave behind in each session of a connection, once it is as the project has made it."""
    noted, connect = Noted(), connection.connect

    def connect_and_begin() -> None:
        connect()
        noted.trace, noted.of_driver = Trace.NOTHING, _of_driver(connection)

    connection.connect = connect_and_begin
    connection.execute_wrappers.insert(0, noted)


def note_calls() -> None:
    """Let a cursor's ``callproc`` count as a change from now on, in this process: no wrapper is shown what it sends."""
    call: Callable[..., Any] = CursorWrapper.callproc

    @wraps(call)
    def callproc(cursor: CursorWrapper, *args: Any, **options: Any) -> Any:
        if (noted := _noted(cursor.db)) is not None:
            noted.trace = Trace.CHANGE
        return call(cursor, *args, **options)

    CursorWrapper.callproc = callproc  # type: ignore[assignment,method-assign]


def is_as_made(connection: Any) -> bool:
    """Return whether the session is as the project has made it; locks by name are released if need be."""
    noted = _noted(connection)
    if noted is None or connection.connection is None:
        return True
    if noted.trace == Trace.CHANGE or noted.of_driver != _of_driver(connection):
        return False
    if noted.trace in (Trace.NOTHING, Trace.READ_ONLY):
        return True
    with connection.cursor() as cursor:
        cursor.execute(terms_of(connection.vendor).traces.release)
    noted.trace = Trace.NOTHING
    return True


def may_be_read_only(connection: Any) -> bool:
    """Return whether the session, or a transaction of it, may be read-only by the handler's doing."""
    noted = _noted(connection)
    return noted is not None and (
        noted.trace in (Trace.READ_ONLY, Trace.CHANGE) or noted.of_driver != _of_driver(connection)
    )


def _noted(connection: Any) -> Noted | None:
    return next((each for each in connection.execute_wrappers if isinstance(each, Noted)), None)


def _of_driver(connection: Any) -> object:
    return terms_of(connection.vendor).driver.state(connection.connection)


def _seen_in(vendor: str, sql: Any) -> Trace:
    if not isinstance(sql, str):
        try:
            sql = sql.as_string(None)  # psycopg's
        except Exception:
            return Trace.CHANGE
    return _remembered(vendor, sql) if len(sql) <= LONGEST else trace_of(vendor, sql)


def trace_of(vendor: str, sql: str) -> Trace:
    """Return what the statements of this text leave in a session."""
    if sql[:1].isalpha() and not any(mark in sql for mark in _MARKS):
        return _trace_of_one(vendor, sql)
    aside = terms_of(vendor).traces.aside
    parts = aside.sub(lambda found: found[0] if found.groupdict().get("name") else " ", sql).split(";")
    return max(_trace_of_one(vendor, part.lstrip("( \t\r\n")) for part in parts)


_remembered = lru_cache(maxsize=500)(trace_of)


def _trace_of_one(vendor: str, sql: str) -> Trace:
    word = sql.split(None, 1)[0].partition("(")[0].upper() if sql.strip() else "SELECT"
    traces = terms_of(vendor).traces
    if _TEMPORARY.match(sql):
        return Trace.CHANGE
    if word in traces.asks_by or word == "CREATE" or _HARMLESS.fullmatch(word) or traces.harmless.match(sql):
        return max(_trace_of_calls(traces, sql), Trace.READ_ONLY if _READ_ONLY.match(sql) else Trace.NOTHING)
    return Trace.CHANGE


def _trace_of_calls(traces: Traces, sql: str) -> Trace:
    lower = sql.lower()
    if not any(needle in lower for needle in traces.needles):
        return Trace.NOTHING
    if traces.changes.search(sql):
        return Trace.CHANGE
    return Trace.LOCKS if traces.locks.search(sql) else Trace.NOTHING
