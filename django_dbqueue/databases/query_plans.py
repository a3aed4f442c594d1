"""How a server reports that it will run a statement about messages, in one form for all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.own_tables import Tables

PRIMARY: Final = "the primary key"
NO_INDEX: Final = "no index"
_PRIMARY_NAMES: Final = ("PRIMARY", f"{Tables.message}_pkey")


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """An execution plan.

    ``indexes``: one for each access to the message table; ``conditions``: what bounds them, if reported.
    """

    indexes: tuple[str, ...]
    conditions: str
    sorts: bool
    text: str


def mysql_plan(rows: list[dict[str, Any]]) -> QueryPlan:
    """Read MySQL's and MariaDB's."""
    indexes = [
        # type "index" reads the index from end to end, as "ALL" does the table
        NO_INDEX if row["type"] in {"ALL", "index"} else _index(row["key"])
        for row in rows
        if row["table"] in {Tables.message, "m", "t"}
    ]
    sorts = any("filesort" in (row["extra"] or "") or "temporary" in (row["extra"] or "") for row in rows)
    return QueryPlan(tuple(indexes), "", sorts, "\n".join(map(str, rows)))


def postgresql_plan(rows: list[dict[str, Any]]) -> QueryPlan:
    """Read PostgreSQL's."""
    plan = rows[0]["query plan"]
    nodes = list(walk((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
    # The index of a bitmap is a node of its own, and finding a row by its place needs none
    by_none = {"ModifyTable", "Bitmap Heap Scan", "Tid Scan"}
    found = [
        node
        for node in nodes
        if node["Node Type"] == "Bitmap Index Scan"
        or (node.get("Relation Name") == Tables.message and node["Node Type"] not in by_none)
    ]
    return QueryPlan(
        tuple(_index(node.get("Index Name")) for node in found),
        " ".join(node.get("Index Cond", "") for node in found),
        any("Sort" in node["Node Type"] for node in nodes),
        json.dumps(nodes, indent=1, default=str),
    )


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each node of PostgreSQL's plan, without those below it."""
    yield {name: value for name, value in node.items() if name != "Plans"}
    for child in node.get("Plans", ()):
        yield from walk(child)


def sqlite_plan(rows: list[dict[str, Any]]) -> QueryPlan:
    """Read SQLite's."""
    lines = [row["detail"] for row in rows]
    found = [line for line in lines if line.startswith((f"SEARCH {Tables.message}", f"SCAN {Tables.message}"))]
    found += [line for line in lines if line.startswith(("SEARCH m ", "SCAN m"))]
    return QueryPlan(
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
    # A unique constraint's index has no other name
    return Index.LIVE_KEY if name.startswith("sqlite_autoindex") else name


def _index(name: str | None) -> str:
    return NO_INDEX if name is None else PRIMARY if name in _PRIMARY_NAMES else name
