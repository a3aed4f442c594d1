"""What answers at a URL."""

from __future__ import annotations

import re
import socket
import sqlite3
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit


def server_version(url: str) -> str:
    """Its version, as the server says it; raises the driver's error when nothing answers."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return sqlite3.sqlite_version
    if parts.scheme in {"postgres", "postgresql"}:
        return _postgres_version(url.replace("postgres:", "postgresql:", 1))
    if parts.scheme == "redis":
        return _redis_version(parts)
    return _mysql_version(parts)


def _postgres_version(url: str) -> str:
    import psycopg

    with psycopg.connect(url, connect_timeout=5) as connection:
        row = connection.execute("SHOW server_version").fetchone()
    assert row is not None
    return str(row[0])


def _redis_version(parts: SplitResult) -> str:
    with socket.create_connection((parts.hostname, parts.port or 6379), timeout=5) as connection:
        connection.sendall(b"INFO server\r\n")
        words = connection.recv(4096).decode()
    found = re.search(r"redis_version:(\S+)", words)
    assert found is not None, words
    return found[1]


def _mysql_version(parts: SplitResult) -> str:
    import MySQLdb

    options: dict[str, Any] = {"host": parts.hostname, "port": parts.port or 3306, "connect_timeout": 5}
    if parts.username:
        options |= {"user": unquote(parts.username), "password": unquote(parts.password or "")}
    connection = MySQLdb.connect(**options)
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT VERSION()")
        return str(cursor.fetchone()[0])
    finally:
        connection.close()
