"""How far the queries get that read streams, as a listener of their Spark session sees it: a row for each stream."""

from __future__ import annotations

from typing import Final

from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement

NAME: Final = "dbqueue"
"""The key under which an offset in Spark's progress events says which row it is for."""
STREAM: Final = "stream:"
READER: Final = "reader:"
"""How the names of consuming streams, and of readers of the history, begin here."""


def create(server: Server, name: str) -> Statement:
    """Create the row of a stream, or of a reader of the history, unless it exists."""
    return Statement(
        f"INSERT INTO {server.stream_progress} (name, query_id, messages, rate, backlog, backlog_capped, "
        f"failures, progressed_at) VALUES (%s, '', 0, 0, 0, 0, 0, {server.now})"
        f"{server.or_nothing(server.stream_progress, 'name')}",
        (name,),
    )


def advance(
    server: Server, name: str, query_id: str, *, messages: int, rate: float, backlog: int, capped: bool
) -> Statement:
    """Add the messages of batches; the last one says how fast it was, and how many were left."""
    return Statement(
        f"UPDATE {server.stream_progress} SET query_id = %s, messages = messages + %s, "
        f"rate = %s, backlog = %s, backlog_capped = %s, "
        f"progressed_at = {server.now} WHERE name = %s",
        (query_id, messages, rate, backlog, int(capped), name),
    )


def fail(server: Server, query_id: str, error: str) -> Statement:
    """Record the failure of a query, of whose streams it has ended the reading."""
    return Statement(
        f"UPDATE {server.stream_progress} SET failures = failures + 1, failed_at = {server.now}, "
        "error = %s WHERE query_id = %s",
        (error, query_id),
    )


def delete(server: Server, name: str) -> Statement:
    """Delete the row."""
    return Statement(f"DELETE FROM {server.stream_progress} WHERE name = %s", (name,))


def all_rows(server: Server) -> Statement:
    """Read every row: name, messages, rate, failures, the moments, and the error."""
    return Statement(
        "SELECT name, messages, rate, failures, progressed_at, failed_at, error "
        f"FROM {server.stream_progress} ORDER BY name",
        (),
    )
