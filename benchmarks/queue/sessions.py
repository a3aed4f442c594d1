"""The drivers by themselves: sessions without Django."""

from __future__ import annotations

import sqlite3
from typing import Any, Final
from urllib.parse import urlsplit

_READ_COMMITTED: Final = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"


def connect(url: str) -> Any:
    """A session that commits each statement, as the queue's own sessions stand: READ COMMITTED, clock in UTC."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return _sqlite(parts.path.removeprefix("/"))
    if parts.scheme == "postgres":
        import psycopg

        return psycopg.connect(url.replace("postgres:", "postgresql:", 1), autocommit=True)
    import MySQLdb

    return MySQLdb.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password or "",
        database=parts.path.strip("/"),
        charset="utf8mb4",
        autocommit=True,
        init_command=_READ_COMMITTED,
    )


def _sqlite(path: str) -> sqlite3.Connection:
    session = sqlite3.connect(path, timeout=20, isolation_level=None)
    session.execute("PRAGMA journal_mode=WAL")
    session.execute("PRAGMA synchronous=FULL")
    return session


def execute(session: Any, sql: str) -> list[tuple[Any, ...]]:
    """Run one statement; return its rows, if it has any."""
    cursor = session.cursor()
    cursor.execute(sql)
    return list(cursor.fetchall()) if cursor.description else []
