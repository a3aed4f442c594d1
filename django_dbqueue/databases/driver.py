"""What a server's driver has in its own way: functions of its connection, or of Django's around that."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from django_dbqueue.databases.leftovers import tidy
from django_dbqueue.databases.statement import Statement
from django_dbqueue.exceptions import InvalidPipeline

CONNECT_SECONDS: Final = 10
SQLITE_SECONDS: Final = 20.0
"""How long one writer waits for another."""
AUTOCOMMITS: Final = "SET SESSION autocommit = 1, completion_type = NO_CHAIN"
"""Sets autocommit in SQL: a MySQL that starts without it greets as if it were on, and the driver believes it."""
_MYSQL_SESSION: Final = (
    AUTOCOMMITS,
    "SET SESSION time_zone = '+00:00', sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES'), sql_safe_updates = 0",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)


class Driver(NamedTuple):
    """A driver; ``raw`` is its connection."""

    module: str
    connect: Callable[[Any], Any]
    """Open a session by ``Credentials``: autocommit, UTC, READ COMMITTED, strict SQL, whatever the server has."""
    execute: Callable[[Any, Any, Statement], object]
    """Let a cursor of ``raw`` run a statement."""
    is_open: Callable[[Any], bool]
    has_begun: Callable[[Any], bool]
    """Whether a transaction begun by SQL is open; on MySQL, whatever may have been begun is ended."""
    state: Callable[[Any], object]
    """What calls of its functions and its attributes have changed of it, to be compared; costs no round trip."""
    greeted: Callable[[Any], int | None]
    """The session's id from the server's greeting (32 bits), if the driver keeps it; a pooler sends its own."""
    many_by: str = ""
    """The module that Django must use for several statements to travel in one round trip, with the result of each."""
    options: tuple[str, ...] = ()
    """The part of Django's ``OPTIONS`` about reaching the server; the rest is about how Django talks to it."""


def _where(account: Any) -> dict[str, Any]:
    """Return what is known of the place, and the driver's options."""
    where = {"host": account.host, "port": account.port, "user": account.user}
    return {name: value for name, value in where.items() if value} | {
        "connect_timeout": CONNECT_SECONDS,
        **account.options,
    }


def _module(name: str, needs: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise InvalidPipeline(
            f"{needs} wherever Spark runs Python: {error}. Install 'django-dbqueue[{extra}]' there, or ship an "
            "environment that has it."
        ) from error


def _mysql_connect(account: Any) -> Any:
    raw = _module("MySQLdb", "MySQL and MariaDB need mysqlclient", "mysql").connect(
        database=account.name, password=account.password, charset="utf8mb4", autocommit=True, **_where(account)
    )
    cursor = raw.cursor()
    for sql in _MYSQL_SESSION:
        cursor.execute(sql)
    cursor.close()
    return raw


def _mysql_execute(raw: Any, cursor: Any, statement: Statement) -> object:
    # As mysqlclient writes parameters; its own way takes three times as long for a text
    literals = (raw.string_literal(it) if type(it) is str else raw.literal(it) for it in statement.params)
    return cursor.execute(statement.sql.encode() % tuple(literals))


def _mysql_has_begun(raw: Any) -> bool:
    # It says whether SET autocommit turned autocommit off, and nothing of a BEGIN
    if not raw.get_autocommit():
        return True
    tidy(raw)
    return False


class _Counted:
    """A function of a connection, and how often it was called."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call, self.times = call, 0

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.times += 1
        return self._call(*args, **options)


def _mysql_state(raw: Any) -> int:
    times = 0
    for name in ("select_db", "change_user", "set_character_set", "set_server_option"):
        call = getattr(raw, name, None)
        if isinstance(call, _Counted):
            times += call.times
        elif call is not None:
            setattr(raw, name, _Counted(call))
    return times


def _attributes(*names: str) -> Callable[[Any], object]:
    return lambda raw: [getattr(raw, name, None) for name in names]


MYSQL_DRIVER: Final = Driver(
    "MySQLdb",
    connect=_mysql_connect,
    execute=_mysql_execute,
    is_open=lambda raw: bool(raw.open),
    has_begun=_mysql_has_begun,
    state=_mysql_state,
    greeted=lambda raw: int(raw.thread_id()) % 2**32 if hasattr(raw, "thread_id") else None,
    many_by="MySQLdb",
    options=(
        "unix_socket",
        "ssl",
        "ssl_mode",
        "connect_timeout",
        "read_timeout",
        "write_timeout",
        "read_default_file",
    ),
)


def _postgresql_connect(account: Any) -> Any:
    psycopg = _module("psycopg", "PostgreSQL needs psycopg", "postgres")
    raw = psycopg.connect(dbname=account.name, password=account.password or None, autocommit=True, **_where(account))
    raw.execute("SET TIME ZONE 'UTC'")
    raw.execute("SET default_transaction_isolation = 'read committed'")
    return raw


POSTGRESQL_DRIVER: Final = Driver(
    "psycopg",
    connect=_postgresql_connect,
    execute=lambda _raw, cursor, statement: cursor.execute(statement.sql, statement.params),
    is_open=lambda raw: not raw.closed,
    has_begun=lambda raw: bool(raw.info.transaction_status),
    state=_attributes(
        "read_only", "isolation_level", "deferrable", "row_factory", "cursor_factory", "prepare_threshold"
    ),
    greeted=lambda raw: int(raw.info.backend_pid) if hasattr(raw, "info") else None,
    many_by="psycopg",
    options=("sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "service", "passfile", "options"),
)


def _sqlite_connect(account: Any) -> Any:
    where = f"file:{quote(account.name)}?mode=rw"  # never creates a file: an empty one would have no tables
    return sqlite3.connect(where, uri=True, isolation_level=None, timeout=SQLITE_SECONDS)


def _sqlite_execute(_raw: Any, cursor: Any, statement: Statement) -> object:
    # Its placeholder is ?, and %% means one %
    return cursor.execute(statement.sql % (("?",) * len(statement.params)), statement.params)


def _sqlite_is_open(raw: Any) -> bool:
    try:
        return bool(raw.total_changes >= 0)
    except sqlite3.ProgrammingError:
        return False


SQLITE_DRIVER: Final = Driver(
    "sqlite3",
    connect=_sqlite_connect,
    execute=_sqlite_execute,
    is_open=_sqlite_is_open,
    has_begun=lambda raw: bool(raw.in_transaction),
    state=_attributes("isolation_level", "row_factory", "text_factory"),
    greeted=lambda _raw: None,
)
