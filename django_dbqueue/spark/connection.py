"""A plain connection to the queue's database, without Django: statements, transactions, retries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Self, TypeVar

from django_dbqueue.databases import Statement, is_of_a_driver, means
from django_dbqueue.databases.errors import code_of
from django_dbqueue.databases.retries import StartAgain, again
from django_dbqueue.databases.statement import Copy, InOrder, Row
from django_dbqueue.exceptions import DatabaseAway, InvalidPipeline
from django_dbqueue.spark.credentials import Credentials

Result = TypeVar("Result")

_POSTGRESQL_REFUSALS: Final = re.compile(
    "authentication failed|does not exist|pg_hba|not permitted|permission denied|not currently accepting|invalid |"
    "no password supplied|certificate|does not support SSL"
)
"""Refusals by a running server, which would answer the same again. libpq gives such a reason only as text."""


class Connection:
    """One database session. Not shared between threads, and not pickled: create one where it is used.

    DatabaseAway says which database can't be reached now, and InvalidPipeline which one never will be like this.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.vendor = credentials.vendor
        self.server = credentials.server
        self.in_transaction = False
        try:
            self.raw: Any = self.server.driver.connect(credentials)
        except InvalidPipeline:
            raise
        except Exception as error:
            text = str(error)
            shown = credentials.hidden_in(text)
            kind = DatabaseAway if is_away(error) else InvalidPipeline
            refused = kind(f"The database {credentials.name!r} can't be reached ({_place(credentials)}): {shown}")
            if isinstance(refused, DatabaseAway):
                refused.is_full = is_full(error)
            raise refused from (error if shown == text else None)

    @cached_property
    def database(self) -> str:
        """The database's name as its server spells it; '' where named locks are the database's own."""
        return str(self.fetch(Statement(f"SELECT {self.server.database}", ()))[0][0])

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
        self.server.driver.execute(self.raw, cursor, statement)
        return cursor

    def _copied(self, statement: Copy) -> Any:
        cursor = self.raw.cursor()
        with cursor.copy(statement.sql) as copy:
            for row in statement.rows:
                copy.write_row(row)
        return cursor

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a READ COMMITTED transaction that takes SQLite's write lock at once."""
        self.run(Statement(self.server.begin, ()))
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
        return work() if self.in_transaction else again(work, is_passing)

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


def is_passing(error: BaseException) -> bool:
    """Return whether the same transaction, started again, is likely to succeed at once."""
    return isinstance(error, StartAgain) or (is_of_a_driver(error) and means(error, "passing"))


def is_away(error: BaseException) -> bool:
    """Return whether the session ended, or could not begin, for a transient reason, or its server takes no writes now.

    It is unknown whether its last commit arrived. Another session, by the same name, may lead to another server.
    """
    if isinstance(error, DatabaseAway):
        return True
    if not is_of_a_driver(error):
        return False
    if code_of(error) is None and hasattr(error, "sqlstate"):  # there was no session that could report one
        return type(error).__name__ == "OperationalError" and not _POSTGRESQL_REFUSALS.search(str(error))
    return any(means(error, kind) for kind in ("lost", "full", "demoted"))


def is_full(error: BaseException) -> bool:
    """Return whether a session could not begin because the server, or the account, has none left."""
    if isinstance(error, DatabaseAway):
        return error.is_full
    return is_of_a_driver(error) and means(error, "full")


def to_utc(value: object) -> datetime:
    """Return a moment from a cursor as an aware datetime in UTC."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    assert isinstance(moment, datetime)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _place(credentials: Credentials) -> str:
    """Say where it is, and which account is used, without the password."""
    if credentials.server.is_file:
        return "a file"
    host = credentials.host or credentials.options.get("unix_socket") or "the driver's default host"
    return f"{credentials.vendor} at {host}, port {credentials.port or 'by default'}, as {credentials.user or 'nobody'}"
