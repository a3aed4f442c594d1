"""How many rows each statement examines, by the server's own counters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

_HISTORY = (
    "SELECT ROWS_EXAMINED, SQL_TEXT FROM performance_schema.events_statements_history "
    "WHERE THREAD_ID = (SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()) "
    "ORDER BY EVENT_ID DESC LIMIT 1"
)
_STEPS = 1_000
"""Of SQLite's machine, between two calls of us."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What one statement has read. ``rows`` are the machine's steps on SQLite, which counts no rows."""

    sql: str
    rows: int


@contextmanager
def examined(connection: BaseDatabaseWrapper) -> Iterator[list[Examined]]:
    """Fill the list with what runs on the connection meanwhile."""
    found: list[Examined] = []
    connection.ensure_connection()
    count = _counter_of(connection)

    def ask(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        with count(sql, params) as rows:
            result = execute(sql, params, many, context)
        found.append(Examined(sql, rows[0]))
        return result

    with connection.execute_wrapper(ask):
        yield found


def _counter_of(connection: Any) -> Callable[..., Any]:
    if connection.vendor == "mysql":
        name = _by_status if connection.mysql_is_mariadb else _by_history
    else:
        name = {"postgresql": _by_explain, "sqlite": _by_steps}[connection.vendor]
    return lambda sql, params: name(connection, sql, params)


def _rows(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """Ask on the same session, but past Django, which would count it too."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(sql)
        return list(cursor.fetchall())
    finally:
        cursor.close()


@contextmanager
def _by_history(connection: Any, sql: str, _params: Any) -> Iterator[list[int]]:
    """MySQL: ROWS_EXAMINED of the statement that this session has just run."""
    rows = [0]
    yield rows
    [(count, text)] = _rows(connection, _HISTORY)
    assert str(text)[:6] == sql.strip()[:6], f"the history's last statement is another one: {text}"
    rows[0] = int(count)


@contextmanager
def _by_status(connection: Any, _sql: str, _params: Any) -> Iterator[list[int]]:
    """MariaDB, whose performance_schema is off by default: reads of index entries, rows and temporary tables."""
    first, second = _handler_reads(connection), _handler_reads(connection)
    rows = [0]
    yield rows
    rows[0] = (_handler_reads(connection) - second) - (second - first)  # asking reads something, too


def _handler_reads(connection: Any) -> int:
    return sum(int(value) for _, value in _rows(connection, "SHOW SESSION STATUS LIKE 'Handler_read%'"))


@contextmanager
def _by_explain(connection: Any, sql: str, params: Any) -> Iterator[list[int]]:
    """PostgreSQL: rows that the scans of the plan gave or dropped, each time that they ran."""
    rows = [0]
    yield rows
    if not sql.lstrip("( ").upper().startswith(("SELECT", "WITH")):
        return
    cursor = connection.connection.cursor()
    try:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
        plan = cursor.fetchone()[0]
    finally:
        cursor.close()
    rows[0] = _rows_of((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])


def _rows_of(node: dict[str, Any]) -> int:
    own = 0
    if "Scan" in node["Node Type"] and "Bitmap Heap" not in node["Node Type"]:
        dropped = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
        own = round((node["Actual Rows"] + dropped) * node["Actual Loops"])
    return own + sum(_rows_of(child) for child in node.get("Plans", ()))


@contextmanager
def _by_steps(connection: Any, _sql: str, _params: Any) -> Iterator[list[int]]:
    rows = [0]

    def count() -> int:
        rows[0] += _STEPS
        return 0

    connection.connection.set_progress_handler(count, _STEPS)
    try:
        yield rows
    finally:
        connection.connection.set_progress_handler(None, 0)
