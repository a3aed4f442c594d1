"""A plain connection to the queue's database, without Django: statements, transactions, retries.

Every session uses UTC, READ COMMITTED and strict SQL, whatever the server's defaults are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

from django_dbqueue.databases import Statement
from django_dbqueue.databases.retries import StartAgain, again
from django_dbqueue.databases.statement import Copy, InOrder, Row
from django_dbqueue.databases.transient_errors import (
    MYSQL_FULL,
    MYSQL_LOST,
    MYSQL_PASSING,
    SQLITE_PASSING,
    SQLSTATE_FULL,
    SQLSTATE_LOST,
    SQLSTATE_PASSING,
)
from django_dbqueue.exceptions import DatabaseAway, InvalidPipeline
from django_dbqueue.spark.credentials import Credentials

Result = TypeVar("Result")

CONNECT_SECONDS: Final = 10
SQLITE_SECONDS: Final = 20.0
"""How long one writer waits for another."""
_MYSQL_SESSION: Final = (
    # sets autocommit in SQL: a MySQL that starts without it greets as if it were on, and the driver believes it
    "SET SESSION autocommit = 1, completion_type = NO_CHAIN",
    "SET SESSION time_zone = '+00:00', sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES'), sql_safe_updates = 0",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
_POSTGRESQL_REFUSALS: Final = re.compile(
    "authentication failed|does not exist|pg_hba|not permitted|permission denied|not currently accepting|invalid |"
    "no password supplied|certificate|does not support SSL"
)
"""Refusals by a running server, which would answer the same again. libpq gives such a reason only as text."""
_POSTGRESQL_FULL: Final = re.compile("too many (clients|connections)|remaining connection slots")


class Connection:
    """One database session. Not shared between threads, and not pickled: create one where it is used.

    DatabaseAway says which database can't be reached now, and InvalidPipeline which one never will be like this.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.vendor = credentials.vendor
        self.server = credentials.server
        self.database = credentials.name
        self.in_transaction = False
        connect = {"mysql": _mysql, "postgresql": _postgresql, "sqlite": _sqlite}[self.vendor]
        try:
            self.raw: Any = connect(credentials)
        except InvalidPipeline:
            raise
        except Exception as error:
            said = str(error)
            shown = credentials.hidden_in(said)
            kind = DatabaseAway if is_away(error) else InvalidPipeline
            refused = kind(f"The database {credentials.name!r} can't be reached ({_place(credentials)}): {shown}")
            if isinstance(refused, DatabaseAway):
                refused.is_full = is_full(error)
            raise refused from (error if shown == said else None)

    def fetch(self, statement: Statement) -> list[Row]:
        """Run a statement that returns rows; for rows in order, with the server's settings for that."""
        keeps = self.server.keep_order and isinstance(statement, InOrder) and self.in_transaction
        if keeps:
            self.run(Statement(self.server.keep_order, ()))
        cursor = self._execute(statement)
        try:
            rows = list(cursor.fetchall())
        finally:
            cursor.close()
        if keeps:
            self.run(Statement(self.server.forget_order, ()))
        return rows

    def run(self, statement: Statement | Copy) -> int:
        """Run a statement and return how many rows it matched."""
        cursor = self._copied(statement) if isinstance(statement, Copy) else self._execute(statement)
        try:
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def _execute(self, statement: Statement) -> Any:
        cursor = self.raw.cursor()
        if self.vendor == "sqlite":  # its placeholder is ?, and %% means one %
            cursor.execute(statement.sql % (("?",) * len(statement.params)), statement.params)
        elif self.vendor == "mysql":
            cursor.execute(statement.sql.encode() % tuple(map(self._literal, statement.params)))
        else:
            cursor.execute(statement.sql, statement.params)
        return cursor

    def _copied(self, statement: Copy) -> Any:
        cursor = self.raw.cursor()
        with cursor.copy(statement.sql) as copy:
            for row in statement.rows:
                copy.write_row(row)
        return cursor

    def _literal(self, value: object) -> Any:
        """Return a parameter as mysqlclient writes it; its own way takes three times as long for a text."""
        return self.raw.string_literal(value) if type(value) is str else self.raw.literal(value)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a READ COMMITTED transaction that takes SQLite's write lock at once."""
        self.run(Statement("BEGIN IMMEDIATE" if self.vendor == "sqlite" else "BEGIN", ()))
        self.in_transaction = True
        try:
            yield
        except BaseException:
            self.in_transaction = False
            self.raw.rollback()
            raise
        self.in_transaction = False
        self.raw.commit()

    def insert_or_keep(self, statement: Statement) -> int | None:
        """Insert one row, and return its id; or what ``Session`` says of a row whose key is taken."""
        cursor = self._execute(statement)
        if self.server.returns_kept_failure:
            return int(cursor.lastrowid)
        rows = list(cursor.fetchall())
        return int(rows[0][0]) if rows else None

    def outermost(self, work: Callable[[], Result]) -> Result:
        """Run ``work``, retrying with jitter on transient errors; only once inside a transaction."""
        return work() if self.in_transaction else again(work, self.is_passing)

    def is_passing(self, error: Exception) -> bool:
        """Return whether the same transaction, started again, is likely to succeed at once."""
        if isinstance(error, StartAgain):
            return True
        if self.vendor == "mysql":
            return bool(error.args) and error.args[0] in MYSQL_PASSING
        if self.vendor == "postgresql":
            return getattr(error, "sqlstate", None) in SQLSTATE_PASSING
        return any(words in str(error) for words in SQLITE_PASSING)

    def clock(self) -> datetime:
        """Return the database's clock, in UTC."""
        return to_utc(self.fetch(self.server.clock())[0][0])

    def close(self) -> None:
        """End the session; what it had not committed is rolled back."""
        self.raw.close()

    def discard(self) -> None:
        """End a session that is no longer needed, broken or not."""
        with suppress(Exception):
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_away(error: BaseException) -> bool:
    """Return whether the session ended, or could not begin, for a transient reason.

    It is then unknown whether its last commit arrived.
    """
    if isinstance(error, DatabaseAway):
        return True
    driver = type(error).__module__.partition(".")[0]
    if driver == "MySQLdb":
        return bool(error.args) and error.args[0] in MYSQL_LOST | MYSQL_FULL
    if driver == "psycopg":
        state = getattr(error, "sqlstate", "")
        if state is None:  # there was no session that could report one
            return type(error).__name__ == "OperationalError" and not _POSTGRESQL_REFUSALS.search(str(error))
        return (state or "").startswith(SQLSTATE_LOST) or state in SQLSTATE_FULL
    return False


def is_full(error: BaseException) -> bool:
    """Return whether a session could not begin because the server, or the account, has none left."""
    if isinstance(error, DatabaseAway):
        return error.is_full
    driver = type(error).__module__.partition(".")[0]
    if driver == "MySQLdb":
        return bool(error.args) and error.args[0] in MYSQL_FULL
    return driver == "psycopg" and bool(_POSTGRESQL_FULL.search(str(error)))


def to_utc(value: object) -> datetime:
    """Return a moment from a cursor as an aware datetime in UTC."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    assert isinstance(moment, datetime)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _place(credentials: Credentials) -> str:
    """Say where it is, and which account is used, without the password."""
    if credentials.vendor == "sqlite":
        return "a file"
    host = credentials.host or credentials.options.get("unix_socket") or "the driver's default host"
    return f"{credentials.vendor} at {host}, port {credentials.port or 'by default'}, as {credentials.user or 'nobody'}"


def _mysql(credentials: Credentials) -> Any:
    try:
        import MySQLdb
    except ImportError as error:
        raise InvalidPipeline(
            f"MySQL and MariaDB need mysqlclient wherever Spark runs Python: {error}. Install 'django-dbqueue[mysql]' "
            "there, or ship an environment that has it."
        ) from error
    where = {"host": credentials.host, "port": credentials.port, "user": credentials.user}
    raw = MySQLdb.connect(
        database=credentials.name,
        password=credentials.password,
        charset="utf8mb4",
        autocommit=True,
        **{name: value for name, value in where.items() if value},
        **{"connect_timeout": CONNECT_SECONDS, **credentials.options},
    )
    cursor = raw.cursor()
    for sql in _MYSQL_SESSION:
        cursor.execute(sql)
    cursor.close()
    return raw


def _postgresql(credentials: Credentials) -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise InvalidPipeline(
            f"PostgreSQL needs psycopg wherever Spark runs Python: {error}. Install 'django-dbqueue[postgres]' there, "
            "or ship an environment that has it."
        ) from error
    where = {"host": credentials.host, "port": credentials.port, "user": credentials.user}
    said: dict[str, Any] = {name: value for name, value in where.items() if value}
    said |= {"connect_timeout": CONNECT_SECONDS, **credentials.options}
    raw = psycopg.connect(dbname=credentials.name, password=credentials.password or None, autocommit=True, **said)
    raw.execute("SET TIME ZONE 'UTC'")
    raw.execute("SET default_transaction_isolation = 'read committed'")
    return raw


def _sqlite(credentials: Credentials) -> Any:
    import sqlite3

    where = f"file:{quote(credentials.name)}?mode=rw"  # never creates a file: an empty one would have no tables
    return sqlite3.connect(where, uri=True, isolation_level=None, timeout=SQLITE_SECONDS)
