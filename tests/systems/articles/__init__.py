"""The five articles' own tables and statements, quoted as they stand; what their reader fills in is a %s.

They are here to be seen failing. Their tables live beside ours in the test database, and go when the test ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.conf import settings
from django.db import connection, transaction

Test = TypeVar("Test")


def in_its_own_dialect(test: Test) -> Test | None:
    """Keep a test of an article's statements where they run: on MySQL and MariaDB."""
    return test if settings.TEST_DATABASE in {"mysql", "mariadb"} else None


@contextmanager
def present(table: str, *statements: str) -> Iterator[None]:
    """The article's table, made by its own statements, and dropped at the end."""
    run(f"DROP TABLE IF EXISTS {table}")
    for statement in statements:
        run(statement)
    try:
        yield
    finally:
        run(f"DROP TABLE {table}")


def run(sql: str, *params: Any) -> int:
    """Run a statement; return how many rows it matched."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return int(cursor.rowcount)


def ask(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    """Run a statement; return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return list(cursor.fetchall())


def by_default(step: Callable[[], Any]) -> Callable[[], Any]:
    """The step in a transaction as MySQL and MariaDB begin one unless told otherwise, as by Django: REPEATABLE READ."""

    def begin_and_step() -> Any:
        run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        return step()

    return begin_and_step if connection.vendor == "mysql" else step


@contextmanager
def session_with(setting: str) -> Iterator[None]:
    """This thread's session under a setting of its own; the next one is as ever."""
    run(f"SET {setting}")
    try:
        yield
    finally:
        connection.close()


def rolled_back(step: Callable[[], Any]) -> Any:
    """The step within a transaction of the caller's, who then thinks better of it."""
    with transaction.atomic():
        result = step()
        transaction.set_rollback(True)
    return result
