"""Sessions on Django's connections: built statements, in transactions no larger than the guarantee they protect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_dbqueue.databases import Statement, dialect_of
from django_dbqueue.databases.statements import Params, Row
from django_dbqueue.databases.transient_errors import SECONDS, again
from django_dbqueue.exceptions import TransactionNotAllowed
from django_dbqueue.retry import in_callers_transaction, is_passing
from django_dbqueue.snapshots import seeing_what_is

Item = TypeVar("Item")
Result = TypeVar("Result")
MessageType = type[models.Model]

MAX_IDS = 900
"""Ids per statement: MariaDB turns lists of a thousand and more into a subquery."""


Execute = Callable[..., object]
Context = dict[str, Any]
"""What Django gives an execute wrapper, besides the statement."""


class Ahead(NamedTuple):
    """A statement that goes before others, and the check that is given its row count: it may raise."""

    statement: Statement
    check: Callable[[int], None]


_READ_COMMITTED = Statement("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", ())
_BEGIN = {"mysql": "BEGIN", "postgresql": "BEGIN ISOLATION LEVEL READ COMMITTED"}


class DjangoSession:
    """A ``Session`` on the connection that the current thread has to a database of Django's."""

    __slots__ = ("dialect", "using")

    def __init__(self, using: str) -> None:
        self.using = using
        """The alias of the database."""
        self.dialect = dialect_of(connections[using])

    @property
    def connection(self) -> BaseDatabaseWrapper:
        """Return the current thread's connection."""
        return connections[self.using]

    def fetch(self, statement: Statement) -> list[Row]:
        """Run a statement that returns rows."""
        with connections[self.using].cursor() as cursor:
            return self._rows(cursor, statement)

    def fetch_messages(self, statement: Statement) -> list[Row]:
        """Run a statement that returns many messages, whose timestamps ``from_db_value`` converts, as always.

        Django converts PostgreSQL's timestamps to what its settings ask for in Python: 5 µs for each of a message's
        five. psycopg's own loader, in C, returns them aware in a thirtieth of that.
        """
        connection: Any = connections[self.using]
        with connection.cursor() as cursor:
            if hasattr(cursor, "adapters"):
                cursor.adapters.register_loader("timestamptz", connection.Database.types.datetime.TimestamptzLoader)
            return self._rows(cursor, statement)

    def _rows(self, cursor: CursorWrapper, statement: Statement) -> list[Row]:
        sql = self.dialect.sql
        if not sql.keeps_order_of(statement):
            cursor.execute(statement.sql, statement.params)
        elif takes_many(connections[self.using]):  # one round trip, not three
            cursor.execute(f"{sql.keep_order}; {statement.sql}; {sql.forget_order}", statement.params)
            cursor.nextset()
        else:
            with self.held_to_order(cursor, statement):
                cursor.execute(statement.sql, statement.params)
                return list(cursor.fetchall())
        return list(cursor.fetchall())

    @contextmanager
    def held_to_order(self, cursor: CursorWrapper, statement: Statement) -> Iterator[None]:
        """Keep the server, for one transaction, to the order of a statement that is ``InOrder``."""
        sql = self.dialect.sql
        is_held = sql.keeps_order_of(statement) and connections[self.using].in_atomic_block
        if is_held:
            cursor.execute(sql.keep_order)
        yield
        if is_held:
            cursor.execute(sql.forget_order)

    def run(self, statement: Statement) -> int:
        """Run a statement and return how many rows it matched."""
        with connections[self.using].cursor() as cursor:
            cursor.execute(statement.sql, statement.params)
            return int(cursor.rowcount)

    def insert(self, statement: Statement) -> int:
        """Insert one row, on a server that doesn't return rows from it, and return its id."""
        with connections[self.using].cursor() as cursor:
            cursor.execute(statement.sql, statement.params)
            return int(cursor.lastrowid)

    def outermost(
        self,
        work: Callable[[], Result],
        *,
        passing: Callable[[BaseException], bool] = is_passing,
        within: float = SECONDS,
    ) -> Result:
        """Run ``work``, retrying with jitter on transient errors while time is left; once in a caller's transaction.

        So a wait for a row lock that has used up the server's own limit (50 s on MySQL) is not retried.
        """
        connection = connections[self.using]
        if not in_callers_transaction(connection):
            return again(work, passing, within=within)
        with seeing_what_is(connection):
            return work()

    @contextmanager
    def transaction(self, *, saves_a_journey: bool = False) -> Iterator[None]:
        """Run a READ COMMITTED transaction that takes SQLite's write lock at once; a savepoint inside the caller's.

        READ COMMITTED, because gap locks of REPEATABLE READ make claimers and producers deadlock; the write lock at
        once, because a reader that becomes a writer is refused without waiting.

        ``saves_a_journey``: the first statement carries BEGIN with it, saving a round trip, if the driver can do that.
        It is for claims, whose sessions are their own anyway: a pooler may keep one for a client that sends two
        statements at once.
        """
        connection = connections[self.using]
        connection.ensure_connection()
        with self._begun(connection, saves_a_journey), transaction.atomic(using=self.using):
            yield

    def _begun(self, connection: Any, saves_a_journey: bool) -> AbstractContextManager[None]:
        """Make atomic() begin as ``transaction`` describes."""
        if in_callers_transaction(connection):
            return nullcontext()
        if connection.vendor == "sqlite":
            return _immediate(connection)
        level = str(connection.isolation_level or "").lower()
        if connection.vendor == "mysql" and level != "read committed":
            self.run(_READ_COMMITTED)  # the next transaction
        if saves_a_journey and takes_many(connection):
            return _begun_by_the_first(connection, _BEGIN[connection.vendor])
        return _begun_by(connection, partial(self.run, Statement(_BEGIN[connection.vendor], ())))

    @contextmanager
    def ahead_of_the_first(self, ahead: Ahead) -> Iterator[None]:
        """Make the first statement of the block carry another one before it, if the driver can do that.

        What the check raises then comes after both have run, so the only transaction open must be one that the error
        undoes.
        """
        connection = connections[self.using]
        statement, check = ahead
        if not takes_many(connection):
            check(self.run(statement))
            yield
            return

        def with_it(execute: Execute, sql: str, params: Params, many: bool, context: Context) -> object:
            connection.execute_wrappers.remove(with_it)
            result = execute(f"{statement.sql}; {sql}", (*statement.params, *(params or ())), many, context)
            check(context["cursor"].rowcount)
            context["cursor"].nextset()
            return result

        connection.execute_wrappers.insert(0, with_it)  # before the one that adds BEGIN, so that BEGIN comes first
        try:
            yield
        finally:
            if is_alone := with_it in connection.execute_wrappers:
                connection.execute_wrappers.remove(with_it)
        if is_alone:
            check(self.run(statement))


session_of = cache(DjangoSession)
"""Return the session of an alias; UnsupportedDatabase if the queue can't live there."""


def takes_many(connection: Any) -> bool:
    """Return whether the driver sends several statements in one round trip, and returns the result of each.

    mysqlclient does unless it is forbidden, and psycopg where it sends whole texts.
    """
    if connection.vendor == "mysql":
        said = connection.settings_dict["OPTIONS"].get("multi_statements", True)
        return bool(said) and connection.Database.__name__ == "MySQLdb"
    return connection.vendor == "postgresql" and not connection.features.uses_server_side_binding


@contextmanager
def _immediate(connection: Any) -> Iterator[None]:
    chosen, connection.transaction_mode = connection.transaction_mode, "IMMEDIATE"
    try:
        yield
    finally:
        connection.transaction_mode = chosen


@contextmanager
def _begun_by_the_first(connection: BaseDatabaseWrapper, begin: str) -> Iterator[None]:
    """Make the first statement in atomic() send BEGIN before it."""

    def with_begin(execute: Execute, sql: str, params: Params, many: bool, context: Context) -> object:
        if with_begin not in connection.execute_wrappers:  # a project's own wrapper has sent something before
            return execute(sql, params, many, context)
        connection.execute_wrappers.remove(with_begin)
        result = execute(f"{begin}; {sql}", params, many, context)
        context["cursor"].nextset()
        return result

    with _begun_by(connection, lambda: connection.execute_wrappers.append(with_begin)):
        try:
            yield
        finally:
            if with_begin in connection.execute_wrappers:  # there was nothing to send
                connection.execute_wrappers.remove(with_begin)


@contextmanager
def _begun_by(connection: Any, begin: Callable[[], object]) -> Iterator[None]:
    """Make atomic() begin differently from Django, which switches autocommit off and on: a round trip on MySQL."""
    connection._start_transaction_under_autocommit = begin
    try:
        yield
    finally:
        del connection._start_transaction_under_autocommit


def refuse_inside_atomic(session: DjangoSession, verb: str) -> None:
    """Raise TransactionNotAllowed inside the caller's transaction; a TestCase's own wrapper does not count."""
    connection: Any = session.connection
    if not connection.in_atomic_block and not connection.get_autocommit():
        raise TransactionNotAllowed(
            f"{verb} runs in a transaction of its own, but was called with autocommit off, where only you could "
            "commit it: call set_autocommit(True) first."
        )
    if connection.in_atomic_block and not all(block._from_testcase for block in connection.atomic_blocks):
        raise TransactionNotAllowed(
            f"{verb} runs in a transaction of its own, but was called inside atomic(): its row locks would last as "
            "long as your transaction, and a rollback would undo the claim under a running handler. Call it before "
            "atomic() begins."
        )


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Split an iterable into lists of at most ``size`` items."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
