"""Reading the whole table, or the whole history: by id, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement, holes
from django_dbqueue.states.table import STATES, condition_of
from django_dbqueue.statuses import STATUSES

STATE_WORDS: Final = (*STATUSES, *STATES)
"""Statuses, and the state names people use."""
OUTCOMES: Final = ("done", "dead", "dropped")
"""How a message in the history ended."""


class Span(NamedTuple):
    """Ids from the first to the last, both included."""

    first: int
    last: int


def compared(server: Server, column: str, operator: str, value: object) -> Statement:
    """Return the condition that a column is before or after a value."""
    return Statement(f"{server.columns([column])} {operator} %s", (value,))


def one_of(server: Server, column: str, values: Sequence[object]) -> Statement:
    """Return the condition that a column is one of the values, of which there is at least one."""
    return Statement(f"{server.columns([column])} IN ({holes(len(values))})", tuple(values))


def in_states(server: Server, words: Sequence[str]) -> Statement:
    """Return the condition that a message is in one of the named states, by the database's clock."""
    each = (condition_of(server, word) if word in STATES else f"status = '{word}'" for word in words)
    return Statement(f"({' OR '.join(each)})", ())


def all_of(conditions: Sequence[Statement]) -> Statement:
    """Return the condition that all of these hold; there is at least one."""
    sql = " AND ".join(condition.sql for condition in conditions)
    return Statement(sql, tuple(value for condition in conditions for value in condition.params))


def ends(table: str) -> Statement:
    """Read the first and the last id of a table; NULL if it is empty."""
    return Statement(f"SELECT MIN(id), MAX(id) FROM {table}", ())


def ends_of(table: str, condition: Statement) -> Statement:
    """Read the first id, the last and the count of the rows that an index finds by a condition; NULL if none."""
    # The count keeps PostgreSQL from walking the primary key up, and down, until it meets such a row
    return Statement(f"SELECT MIN(id), MAX(id), COUNT(*) FROM {table} WHERE {condition.sql}", condition.params)


def sample(table: str, span: Span, limit: int, *, backwards: bool = False) -> Statement:
    """Read the lowest id, the highest, and the count of the first (or last) rows of a span, ``limit`` at most."""
    order = "id DESC" if backwards else "id"
    return Statement(
        f"SELECT MIN(id), MAX(id), COUNT(*) FROM (SELECT id FROM {table} WHERE id >= %s AND id <= %s "
        f"ORDER BY {order} LIMIT %s) AS sampled",
        (span.first, span.last, limit),
    )


def count_few(server: Server, condition: Statement, limit: int) -> Statement:
    """Count the messages that the claim index finds for a condition on its columns, up to a limit."""
    return Statement(
        f"SELECT COUNT(*) FROM (SELECT 1 AS one FROM {server.message}{server.use[Index.CLAIM]} "
        f"WHERE {condition.sql} LIMIT %s) AS counted",
        (*condition.params, limit),
    )


def page(
    server: Server,
    table: str,
    columns: Sequence[str],
    span: Span,
    limit: int,
    *,
    condition: Statement | None = None,
    few: bool = False,
) -> Statement:
    """Read the first rows of a span, by id; ``few`` uses the claim index, not the primary key."""
    index = server.use[Index.CLAIM] if few else server.use[Index.PRIMARY]
    such = f" AND {condition.sql}" if condition else ""
    return Statement(
        f"SELECT {server.columns(columns)} FROM {table}{index} WHERE id >= %s AND id <= %s{such} "
        f"ORDER BY {server.order_of_few if few else 'id'} LIMIT %s",
        (span.first, span.last, *(condition.params if condition else ()), limit),
    )


def copied_out(statement: Statement) -> Statement:
    """Return the rows as CSV in one stream; text is quoted where an empty one could be mistaken for NULL."""
    return Statement(f"COPY ({statement.sql}) TO STDOUT (FORMAT csv)", statement.params)
