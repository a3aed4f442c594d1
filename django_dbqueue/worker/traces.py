"""What a handler's own SQL leaves in its session for the next handler: settings, another database, locks by name.

The server isn't asked. Django shows each statement before it is sent, without its parameters, so the same few texts
come again and again, and what was found out about each is remembered. What a driver's own cursor sends isn't seen.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final

from django_dbqueue.databases.statement import Params
from django_dbqueue.sessions.transaction_begin import Context, Execute


class Trace(IntEnum):
    """What of a session has to be undone."""

    NOTHING = 0
    LOCKS = 1
    """Locks by name, which the session holds until it is told, or ends."""
    CHANGE = 2
    """The session isn't as the project made it, and must end."""


LONGEST: Final = 16_000
"""Characters of a text worth remembering."""

_ASIDE: Final = {
    "mysql": re.compile(
        r"'[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"|`[^`]*`|/\*(?!M?!).*?\*/|--(?=\s|\Z)[^\n]*|#[^\n]*",
        re.DOTALL,
    )
}
"""Literals, names in quotes and comments, but not the comments that MySQL executes."""
_ASIDE_ELSEWHERE: Final = re.compile(r"'[^']*'|\"[^\"]*\"|/\*.*?\*/|--[^\n]*", re.DOTALL)
_ASKING: Final = frozenset({"SELECT", "WITH", "VALUES", "DO"})
"""First words of statements that may call functions, and do nothing else to a session."""
_HARMLESS: Final = re.compile(
    r"INSERT|UPDATE|DELETE|REPLACE|MERGE|TABLE|BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE|EXPLAIN|"
    r"ANALYZE|SHOW|DESCRIBE|DESC|ALTER|DROP|TRUNCATE|RENAME|LOCK|UNLOCK|XA|FLUSH|OPTIMIZE|CHECK|REPAIR|KILL|"
    r"VACUUM|REINDEX|CLUSTER|COMMENT|GRANT|REVOKE|COPY|FETCH|MOVE|CLOSE|NOTIFY|REFRESH|CHECKPOINT"
)
"""First words of statements that change no session. A transaction left open is noticed elsewhere."""
_ALSO_HARMLESS: Final = {
    "mysql": re.compile(r"SET\s+(?:TRANSACTION|STATEMENT)\b|LOAD\s+(?:DATA|XML)\b", re.IGNORECASE),
    "postgresql": re.compile(r"SET\s+(?:LOCAL|TRANSACTION|CONSTRAINTS)\b|DECLARE\b(?!.*\bHOLD\b)", re.I | re.DOTALL),
    "sqlite": re.compile(
        r"PRAGMA\s+[\w.\"]+\s*\Z|PRAGMA\s+(?:\w+\.)?(?:table_x?info|index_x?info|index_list|foreign_key_list|"
        r"foreign_key_check|integrity_check|quick_check|optimize|wal_checkpoint)\b",
        re.IGNORECASE,
    ),
}
_TEMPORARY: Final = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL)\s+)?TEMP", re.IGNORECASE)
_NEEDLES: Final = {"mysql": ("get_lock", ":=", "into"), "postgresql": ("advisory_lock", "set_config", "into")}
"""Without any of these, in lower case, a question leaves nothing."""
_LOCKS: Final = {
    "mysql": re.compile(r"\bGET_LOCK\s*\(", re.IGNORECASE),
    "postgresql": re.compile(r"\bpg_(?:try_)?advisory_lock", re.IGNORECASE),
}
_CHANGES: Final = {
    "mysql": re.compile(r":=|\bINTO\s+@", re.IGNORECASE),
    "postgresql": re.compile(
        r"\bset_config\s*\((?!.*,\s*true\s*\))|\bINTO\s+(?:LOCAL\s+|GLOBAL\s+)?TEMP", re.IGNORECASE | re.DOTALL
    ),
}
_RELEASE: Final = {"mysql": "DO RELEASE_ALL_LOCKS()", "postgresql": "SELECT pg_advisory_unlock_all()"}


class Noted:
    """An execute wrapper that notes what the statements of one connection leave behind."""

    __slots__ = ("trace",)

    def __init__(self) -> None:
        self.trace = Trace.NOTHING

    def __call__(self, execute: Execute, sql: Any, params: Params, many: bool, context: Context) -> object:
        if self.trace != Trace.CHANGE:
            self.trace = max(self.trace, _seen_in(context["connection"].vendor, sql))
        return execute(sql, params, many, context)


def watch(connection: Any) -> None:
    """Note what statements leave behind in each session of a connection, once it is as the project has made it."""
    noted, connect = Noted(), connection.connect

    def connect_and_begin() -> None:
        connect()
        noted.trace = Trace.NOTHING

    connection.connect = connect_and_begin
    connection.execute_wrappers.insert(0, noted)


def is_as_made(connection: Any) -> bool:
    """Return whether the session is as the project has made it; locks by name are released if need be."""
    noted = next((each for each in connection.execute_wrappers if isinstance(each, Noted)), None)
    if noted is None or noted.trace == Trace.NOTHING or connection.connection is None:
        return True
    if noted.trace == Trace.CHANGE:
        return False
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE[connection.vendor])
    noted.trace = Trace.NOTHING
    return True


def _seen_in(vendor: str, sql: Any) -> Trace:
    if not isinstance(sql, str):
        try:
            sql = sql.as_string(None)  # psycopg's
        except Exception:
            return Trace.CHANGE
    return _remembered(vendor, sql) if len(sql) <= LONGEST else trace_of(vendor, sql)


def trace_of(vendor: str, sql: str) -> Trace:
    """Return what the statements of this text leave in a session."""
    if ";" not in sql and sql[:1].isalpha():
        return _trace_of_one(vendor, sql)
    parts = _ASIDE.get(vendor, _ASIDE_ELSEWHERE).sub(" ", sql).split(";")
    return max(_trace_of_one(vendor, part.lstrip("( \t\r\n")) for part in parts)


_remembered = lru_cache(maxsize=500)(trace_of)


def _trace_of_one(vendor: str, sql: str) -> Trace:
    word = sql.split(None, 1)[0].partition("(")[0].upper() if sql.strip() else "SELECT"
    if word in _ASKING and (word != "DO" or vendor == "mysql"):
        return _trace_of_question(vendor, sql)
    if word == "CREATE":
        return Trace.CHANGE if _TEMPORARY.match(sql) else Trace.NOTHING
    also = _ALSO_HARMLESS.get(vendor)
    is_harmless = _HARMLESS.fullmatch(word) is not None or (also is not None and also.match(sql) is not None)
    return Trace.NOTHING if is_harmless else Trace.CHANGE


def _trace_of_question(vendor: str, sql: str) -> Trace:
    lower = sql.lower()
    if not any(needle in lower for needle in _NEEDLES.get(vendor, ())):
        return Trace.NOTHING
    if _CHANGES[vendor].search(sql):
        return Trace.CHANGE
    return Trace.LOCKS if _LOCKS[vendor].search(sql) else Trace.NOTHING
