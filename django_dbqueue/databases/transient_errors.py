"""Transient server errors: the same transaction, started again, is likely to succeed."""

from __future__ import annotations

from typing import Final

MYSQL_VICTIM: Final = frozenset({1020, 1213})
"""Record changed (MariaDB), deadlock."""
SQLSTATE_VICTIM: Final = frozenset({"40001", "40P01"})
"""Serialisation failure, deadlock."""
MYSQL_PASSING: Final = MYSQL_VICTIM | {1205, 3572}
"""Also a lock wait timeout and an unavailable lock. Not what somebody, or a time limit, cancelled (1317)."""
SQLSTATE_PASSING: Final = SQLSTATE_VICTIM | {"55P03"}
"""Also an unavailable lock (``lock_timeout``). Not a cancelled statement (57014)."""
SQLITE_PASSING: Final = ("database is locked", "database table is locked")
MYSQL_DUPLICATE: Final = frozenset({1062})
SQLSTATE_DUPLICATE: Final = frozenset({"23505"})
MYSQL_LOST: Final = frozenset({1053, 1927, 2002, 2003, 2006, 2013, 2055, 4031})
"""Shutdown, killed (MariaDB), can't connect, gone, lost, ended as idle: did a commit arrive?"""
MYSQL_FULL: Final = frozenset({1040, 1203, 1226})
"""No session is left, for the server or for the account."""
SQLSTATE_FULL: Final = frozenset({"53300"})
SQLSTATE_LOST: Final = ("08", "57P")
"""Prefixes: connection exceptions, and a server that ends sessions."""


def sqlstate_of(error: object) -> str | None:
    """Return the SQLSTATE of a psycopg error; None if there is none."""
    return getattr(error, "sqlstate", None)
