"""A handler on a test's own connection, whose transaction has to survive what a worker's connection need not.

Under a worker, a handler starts without a transaction, on a connection that is restored or replaced afterwards. In a
``TestCase``, one transaction surrounds everything, and one broken statement or one ``close()`` ends it. So each handler
runs inside a savepoint there. What it leaves open is rolled back, as in a worker. Its commit hooks are run when it has
ended, since the commit that they wait for never comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar
from unittest.mock import patch

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.worker.thread_connections import is_open

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

SWALLOWED = (
    "The consumer caught an error of the database and went on. Under a worker only the statement that failed is "
    "undone, but here it broke the transaction of the test, and undid everything that the consumer had written. Put "
    "that statement into an atomic() of its own, or test this consumer in a TransactionTestCase (pytest: "
    "transactional_db)."
)
ENDED = (
    "The consumer ended the transaction that the test lives in (COMMIT or ROLLBACK as SQL, DDL on MySQL, or a closed "
    "session). Test this consumer in a TransactionTestCase (pytest: transactional_db)."
)


class LostTransaction(AssertionError):
    """A consumer broke or ended the transaction that the test runs in; the text says how, and what to do."""


def in_the_tests_transaction(handler: Callable[[], Result]) -> Result:
    """Call it as a worker would: with connections in order after it, and its commit hooks run.

    Exceptions propagate; LostTransaction is raised if it did what only a worker's own connection survives.
    """
    marks = [(connection, len(connection.run_on_commit)) for connection in _open() if connection.in_atomic_block]
    try:
        with _contained():
            returned = handler()
    except LostTransaction:
        raise
    except BaseException:
        _run_hooks(marks)
        raise
    _run_hooks(marks)
    return returned


def _open() -> list[BaseDatabaseWrapper]:
    """Return this thread's connections, each once: a mirror shares its object with what it mirrors."""
    return list({id(connection): connection for connection in connections.all(initialized_only=True)}.values())


class _ConnectionState:
    """The state of a connection inside the test's transaction before a handler."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        self._blocks = len(connection.atomic_blocks)
        self._inner = len(connection.savepoint_ids)
        self._hooks = len(connection.run_on_commit)
        self._savepoint: Any = connection.savepoint()

    def restore(self) -> bool:
        """End what the handler left open; return whether everything else it did is intact."""
        connection = self.connection
        left_open = connection.savepoint_ids[self._inner :]
        del connection.savepoint_ids[self._inner :], connection.atomic_blocks[self._blocks :]
        try:
            if left_open and left_open[0]:
                connection.needs_rollback = False
                connection.savepoint_rollback(left_open[0])
            if not connection.needs_rollback:
                with suppress(Error):
                    connection.savepoint_commit(self._savepoint)
                    return True
            connection.needs_rollback = False
            connection.savepoint_rollback(self._savepoint)
            del connection.run_on_commit[self._hooks :]
        except Error as error:
            connection.needs_rollback = True
            raise LostTransaction(ENDED) from error
        return False


@contextmanager
def _contained() -> Iterator[None]:
    """Leave each connection in the transaction that it was in before the block."""
    states = [_ConnectionState(connection) for connection in _open() if connection.in_atomic_block]
    try:
        with _never_closed([each.connection for each in states]):
            yield
    except BaseException:
        _put_right(states)
        raise
    if not _put_right(states):
        raise LostTransaction(SWALLOWED)


@contextmanager
def _never_closed(in_the_test: list[BaseDatabaseWrapper]) -> Iterator[None]:
    """Make close() do nothing: close_old_connections() is good practice in a handler, but would end the test."""
    with ExitStack() as stack:
        for connection in in_the_test:
            stack.enter_context(patch.object(connection, "close", lambda: None))
        yield


def _put_right(states: list[_ConnectionState]) -> bool:
    """Return whether everything that the handler did and completed is intact."""
    in_the_test = {id(each.connection) for each in states}
    for connection in _open():
        if id(connection) not in in_the_test:
            _leave_clean(connection)
    return False not in [each.restore() for each in states]


def _run_hooks(marks: list[tuple[Any, int]]) -> None:
    """Run the hooks registered after the marks, in order; as at a commit, the first failure ends it."""
    for connection, mark in marks:
        while len(connection.run_on_commit) > mark:
            _, hook, robust = connection.run_on_commit.pop(mark)
            try:
                with _contained():
                    hook()
            except Exception as error:
                if not robust:
                    del connection.run_on_commit[mark:]
                    raise
                logger.error("a robust hook on the commit failed: %s", error, exc_info=error)


def _leave_clean(connection: BaseDatabaseWrapper) -> None:
    """Undo what a handler left open on a connection that was outside any transaction before it.

    Unlike a worker, this doesn't open a new connection: a database in memory ends with its last one.
    """
    if connection.connection is None or (is_open(connection) and _is_outside(connection)):
        return
    connection.in_atomic_block, connection.needs_rollback = False, False
    connection.savepoint_ids, connection.atomic_blocks, connection.run_on_commit = [], [], []
    if is_open(connection):
        connection.rollback()
        connection.set_autocommit(True)
    else:
        connection.connection = None  # close() would fail on MySQL; the next use opens a new one


def _is_outside(connection: BaseDatabaseWrapper) -> bool:
    return not connection.in_atomic_block and bool(connection.get_autocommit())
