"""How a server says that it will run a statement, and what running it has cost, in one form for all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import transaction

from django_dbqueue.databases.base import Dialect
from django_dbqueue.databases.words import CLAIM_INDEX, LIVE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

    from django_dbqueue.databases import Statement

CLAIM = CLAIM_INDEX
PRIMARY = "the primary key"
NO_INDEX = "no index"
_PRIMARY_NAMES = {"PRIMARY", f"{Dialect.message}_pkey"}


@dataclass(frozen=True, slots=True)
class Plan:
    """``indexes``: one for each access to the message table; ``conditions``: what bounds them, if that is said."""

    indexes: tuple[str, ...]
    conditions: str
    sorts: bool
    text: str


def plan_of(connection: BaseDatabaseWrapper, statement: Statement) -> Plan:
    return {"mysql": _on_mysql, "postgresql": _on_postgresql, "sqlite": _on_sqlite}[connection.vendor](
        connection, statement
    )


def cost_of(connection: BaseDatabaseWrapper, statement: Statement) -> int:
    """Entries and rows read (MySQL, MariaDB), pages scanned (PostgreSQL), steps of the machine (SQLite)."""
    ask = {"mysql": _reads, "postgresql": _pages, "sqlite": _steps}[connection.vendor]
    with transaction.atomic():
        cost = ask(connection, statement)
        transaction.set_rollback(True)
    return cost


def _on_mysql(connection: BaseDatabaseWrapper, statement: Statement) -> Plan:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN FORMAT=TRADITIONAL {statement.sql}", statement.params)
        names = [column[0].lower() for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    indexes = [
        # type "index" reads the index from end to end, as "ALL" does the table
        NO_INDEX if row["type"] in {"ALL", "index"} else _index(row["key"])
        for row in rows
        if row["table"] in {Dialect.message, "m"}
    ]
    sorts = any("filesort" in (row["extra"] or "") or "temporary" in (row["extra"] or "") for row in rows)
    return Plan(tuple(indexes), "", sorts, "\n".join(map(str, rows)))


def _on_postgresql(connection: BaseDatabaseWrapper, statement: Statement) -> Plan:
    nodes = _nodes(connection, statement, "FORMAT JSON")
    through_bitmaps = {"ModifyTable", "Bitmap Heap Scan"}  # the index of a bitmap is a node of its own
    found = [
        node
        for node in nodes
        if node["Node Type"] == "Bitmap Index Scan"
        or (node.get("Relation Name") == Dialect.message and node["Node Type"] not in through_bitmaps)
    ]
    indexes = [_index(node.get("Index Name")) for node in found]
    return Plan(
        tuple(indexes),
        " ".join(node.get("Index Cond", "") for node in found),
        any("Sort" in node["Node Type"] for node in nodes),
        json.dumps(nodes, indent=1, default=str),
    )


def _on_sqlite(connection: BaseDatabaseWrapper, statement: Statement) -> Plan:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.params)
        lines = [row[3] for row in cursor.fetchall()]
    found = [line for line in lines if line.startswith((f"SEARCH {Dialect.message}", f"SCAN {Dialect.message}"))]
    found += [line for line in lines if line.startswith(("SEARCH m ", "SCAN m"))]
    return Plan(
        tuple(_sqlite_index(line) for line in found),
        " ".join(line.partition(" (")[2] for line in found),
        any("TEMP B-TREE" in line for line in lines),
        "\n".join(lines),
    )


def _sqlite_index(line: str) -> str:
    if line.startswith("SCAN"):
        return NO_INDEX
    if "INTEGER PRIMARY KEY" in line:
        return PRIMARY
    name = line.partition("INDEX ")[2].split(" ")[0]
    return LIVE_KEY if name.startswith("sqlite_autoindex") else name  # a unique constraint's index has no other name


def _index(name: str | None) -> str:
    return NO_INDEX if name is None else PRIMARY if name in _PRIMARY_NAMES else name


def _nodes(connection: BaseDatabaseWrapper, statement: Statement, how: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN ({how}) {statement.sql}", statement.params)
        said = cursor.fetchone()[0]
    return list(_walk((json.loads(said) if isinstance(said, str) else said)[0]["Plan"]))


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {name: value for name, value in node.items() if name != "Plans"}
    for child in node.get("Plans", ()):
        yield from _walk(child)


def _reads(connection: BaseDatabaseWrapper, statement: Statement) -> int:
    first, second = _handler_reads(connection), _handler_reads(connection)
    with connection.cursor() as cursor:
        cursor.execute(statement.sql, statement.params)
    third = _handler_reads(connection)
    return (third - second) - (second - first)  # asking reads something, too


def _handler_reads(connection: BaseDatabaseWrapper) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%%'", ())
        return sum(int(value) for _, value in cursor.fetchall())


def _pages(connection: BaseDatabaseWrapper, statement: Statement) -> int:
    scans = [
        node
        for node in _nodes(connection, statement, "ANALYZE, BUFFERS, FORMAT JSON")
        if node.get("Relation Name") == Dialect.message and node["Node Type"] != "ModifyTable"
    ]
    return sum(
        node["Shared Hit Blocks"] + node["Shared Read Blocks"] + node.get("Rows Removed by Filter", 0) for node in scans
    )


def _steps(connection: BaseDatabaseWrapper, statement: Statement) -> int:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.connection.set_progress_handler(count, 1)
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.params)
            if cursor.description:
                cursor.fetchall()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return steps
