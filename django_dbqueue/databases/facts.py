"""What a server is asked about itself, for the checks and the doctor; answers are (name, value) rows."""

from __future__ import annotations

from collections.abc import Sequence

from django_dbqueue.databases.base import Dialect
from django_dbqueue.databases.words import Statement


def mysql_variables(names: Sequence[str]) -> Statement:
    """The session's values; names that this server doesn't know are left out."""
    return Statement(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({Dialect.holes(len(names))})", tuple(names))


def mysql_engines(tables: Sequence[str]) -> Statement:
    """The storage engines of those of the tables that exist."""
    return Statement(
        "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() "
        f"AND TABLE_TYPE = 'BASE TABLE' AND TABLE_NAME IN ({Dialect.holes(len(tables))})",
        tuple(tables),
    )


def postgresql_settings(names: Sequence[str]) -> Statement:
    """The session's values."""
    return Statement(f"SELECT name, setting FROM pg_settings WHERE name IN ({Dialect.holes(len(names))})", tuple(names))


def sqlite_pragmas() -> Statement:
    """How this connection writes: ``synchronous`` as a number, ``journal_mode`` as a word."""
    return Statement(
        "SELECT 'synchronous', synchronous FROM pragma_synchronous UNION ALL "
        "SELECT 'journal_mode', journal_mode FROM pragma_journal_mode",
        (),
    )
