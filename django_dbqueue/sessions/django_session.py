"""Sessions on Django's connections: built statements, in transactions no larger than the guarantee they protect."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from django.db import DatabaseError, OperationalError, connections, models, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_dbqueue import conf
from django_dbqueue.databases import Statement, means, server_of
from django_dbqueue.databases.retries import SECONDS, StartAgain, again
from django_dbqueue.databases.statement import InOrder, Params, Row
from django_dbqueue.exceptions import TransactionNotAllowed
from django_dbqueue.sessions.advice import explain
from django_dbqueue.sessions.doubts import judged
from django_dbqueue.sessions.retry import Overtaken, is_doubtful, is_passing
from django_dbqueue.sessions.snapshots import is_read_committed, seeing_what_is
from django_dbqueue.sessions.transaction_begin import Context, Execute, begun_by, begun_by_the_first, takes_many

Result = TypeVar("Result")
MessageType = type[models.Model]


class Prelude(NamedTuple):
    """A statement that goes before others, the check that is given its row count, and what follows it at once.

    The check may raise; what follows has then run too, if the driver sends several statements in one round trip.
    ``finish`` is more work for the same transaction, which needs answers; then nothing travels together.
    """

    statement: Statement
    check: Callable[[int], None]
    then: Statement | None = None
    finish: Callable[[], object] | None = None


class DjangoSession:
    """A ``Session`` on the connection that the current thread has to a database of Django's."""

    __slots__ = ("server", "using")

    def __init__(self, using: str) -> None:
        self.using = using
        """The alias of the database."""
        self.server = server_of(connections[using])

    @property
    def connection(self) -> BaseDatabaseWrapper:
        """Return the current thread's connection."""
        return connections[self.using]

    @property
    def connection_id(self) -> int:
        """Return the session's id on MySQL and MariaDB, which the driver knows without asking the server."""
        return int(connections[self.using].connection.thread_id())

    def fetch(self, statement: Statement) -> list[Row]:
        """Run a statement that returns rows."""
        with connections[self.using].cursor() as cursor:
            if self.server.keep_order and isinstance(statement, InOrder):
                return self._rows(cursor, statement)
            cursor.execute(statement.sql, statement.params)
            return list(cursor.fetchall())

    def fetch_messages(self, statement: Statement) -> list[Row]:
        """Run a statement that returns many messages, whose timestamps stay text until they are read."""
        return self._fetch_loading(statement, "string", "TextLoader")

    def fetch_moments(self, statement: Statement) -> list[Row]:
        """Run a statement that returns many timestamps; PostgreSQL's are aware, in the session's time zone."""
        return self._fetch_loading(statement, "datetime", "TimestamptzLoader")

    def _fetch_loading(self, statement: Statement, module: str, loader: str) -> list[Row]:
        """Run it with one of psycopg's own loaders, in C: Django's for timestamps is Python, 5 µs each."""
        connection: Any = connections[self.using]
        with connection.cursor() as cursor:
            if hasattr(cursor, "adapters"):
                types = getattr(connection.Database.types, module)
                cursor.adapters.register_loader("timestamptz", getattr(types, loader))
            return self._rows(cursor, statement)

    def _rows(self, cursor: CursorWrapper, statement: Statement) -> list[Row]:
        server = self.server
        if not (server.keep_order and isinstance(statement, InOrder)):
            cursor.execute(statement.sql, statement.params)
        elif takes_many(connections[self.using]):  # one round trip, not three
            cursor.execute(f"{server.keep_order}; {statement.sql}; {server.forget_order}", statement.params)
            cursor.nextset()
        else:
            with self.held_to_order(cursor, statement):
                cursor.execute(statement.sql, statement.params)
                return list(cursor.fetchall())
        return list(cursor.fetchall())

    @contextmanager
    def held_to_order(self, cursor: CursorWrapper, statement: Statement) -> Iterator[None]:
        """Keep the server, for one transaction, to the order of a statement that is ``InOrder``."""
        keeps = self.server.keep_order and isinstance(statement, InOrder) and connections[self.using].in_atomic_block
        if keeps:
            cursor.execute(self.server.keep_order)
        yield
        if keeps:
            cursor.execute(self.server.forget_order)

    def run(self, statement: Statement) -> int:
        """Run a statement and return how many rows it matched."""
        with connections[self.using].cursor() as cursor:
            try:
                cursor.execute(statement.sql, statement.params)
            except OperationalError as error:
                if not means(error, "safe updates"):
                    raise
                # ours name rows by keys; a project's session is left as it was
                cursor.execute(self.server.allows_updates)
                try:
                    cursor.execute(statement.sql, statement.params)
                    return int(cursor.rowcount)
                finally:
                    cursor.execute(self.server.refuses_updates)
            return int(cursor.rowcount)

    def allow_updates(self) -> None:
        """Switch ``sql_safe_updates`` off in a session that is the queue's own, which spares ``run`` from doing it."""
        if self.server.allows_updates:
            self.run(Statement(self.server.allows_updates, ()))

    def insert(self, statement: Statement) -> int:
        """Insert one row, on a server that doesn't return rows from it, and return its id."""
        with connections[self.using].cursor() as cursor:
            cursor.execute(statement.sql, statement.params)
            return int(cursor.lastrowid)

    def insert_or_keep(self, statement: Statement) -> int | None:
        """Insert one row, and return its id; or what ``Session`` says of a row whose key is taken."""
        if not self.server.returns_kept_failure:
            rows = self.fetch(statement)
            return int(rows[0][0]) if rows else None
        with seeing_what_is(connections[self.using], whatever_the_level=True):
            return self.insert(statement)

    def outermost(
        self,
        work: Callable[[], Result],
        *,
        passing: Callable[[BaseException], bool] = is_passing,
        within: float = SECONDS,
    ) -> Result:
        """Run ``work``, retrying with jitter on transient errors while time is left; once in a caller's transaction.

        So a wait for a lock that has used up the server's own limit (50 s on MySQL) is not retried. Unless ``passing``
        is given, an error that may be about a row is judged by repeating the work.
        """
        began = time.monotonic()
        try:
            if in_callers_transaction(connection := connections[self.using]):
                with seeing_what_is(connection):
                    return work()
            try:
                return work()
            except Exception as error:
                if passing is is_passing and is_doubtful(error):
                    return judged(self.using, work, error)
                if not passing(error) or time.monotonic() - began >= within:
                    raise
            return again(work, passing, within=within, tried=1, began=began)
        except StartAgain as error:
            raise Overtaken("others changed what this transaction was to change: repeat the transaction") from error
        except DatabaseError as error:
            explain(self.using, error)
            raise

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
        block: Any = transaction.atomic(using=self.using)
        block.is_of_the_queue = True
        with self._begun(connection, saves_a_journey), block:
            yield

    @property
    def owns_transaction(self) -> bool:
        """Return whether the open transaction was begun here, so that it will soon be over, and not by a caller."""
        blocks = self.connection.atomic_blocks
        return bool(blocks) and getattr(blocks[0], "is_of_the_queue", False)

    def _begun(self, connection: Any, saves_a_journey: bool) -> AbstractContextManager[None]:
        """Make atomic() begin as ``transaction`` describes."""
        if in_callers_transaction(connection):
            return nullcontext()
        server = self.server
        if server.begin_mode:
            return _in_mode(connection, server.begin_mode)
        if server.isolates and not is_read_committed(connection):
            self.run(Statement(server.isolates, ()))
        if saves_a_journey and takes_many(connection):
            return begun_by_the_first(connection, server.begin)
        return begun_by(connection, partial(self.run, Statement(server.begin, ())))

    @contextmanager
    def with_first_statement(self, prelude: Prelude) -> Iterator[None]:
        """Make the first statement of the block carry another one before it, if the driver can do that.

        What the check raises then comes after both have run, so the only transaction open must be one that the error
        undoes.
        """
        connection = connections[self.using]
        if not takes_many(connection):
            self.run_prelude(prelude)
            yield
            return
        parts = [part for part in (prelude.statement, prelude.then) if part is not None]

        def with_it(execute: Execute, sql: str, params: Params, many: bool, context: Context) -> object:
            connection.execute_wrappers.remove(with_it)
            text = "; ".join((*(part.sql for part in parts), sql))
            result = execute(
                text, (*chain.from_iterable(part.params for part in parts), *(params or ())), many, context
            )
            prelude.check(context["cursor"].rowcount)
            for _ in parts:
                context["cursor"].nextset()
            return result

        connection.execute_wrappers.insert(0, with_it)  # before the one that adds BEGIN, so that BEGIN comes first
        try:
            yield
        finally:
            if is_alone := with_it in connection.execute_wrappers:
                connection.execute_wrappers.remove(with_it)
        if is_alone:
            self.run_prelude(prelude)

    def run_prelude(self, prelude: Prelude) -> None:
        """Run it on its own, in the open transaction."""
        prelude.check(self.run(prelude.statement))
        if prelude.then is not None:
            self.run(prelude.then)
        if prelude.finish is not None:
            prelude.finish()


session_of = cache(DjangoSession)
"""Return the session of an alias; UnsupportedDatabase if the queue can't live there."""


def session_for(model: MessageType, using: str | None = None) -> DjangoSession:
    """Return the session of an alias; by default that of ``DBQUEUE["DATABASE"]``, else of the router's for writes."""
    return session_of(using or conf.get("DATABASE") or router.db_for_write(model))


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


@contextmanager
def _in_mode(connection: Any, mode: str) -> Iterator[None]:
    """Make atomic() begin in this mode of SQLite's."""
    chosen, connection.transaction_mode = connection.transaction_mode, mode
    try:
        yield
    finally:
        connection.transaction_mode = chosen


def in_callers_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Return whether only the caller can commit: inside atomic(), or with autocommit off, which begins implicitly."""
    is_open = connection.connection is not None  # otherwise the autocommit state is that of a session that is gone
    return connection.in_atomic_block or (is_open and not connection.autocommit)
