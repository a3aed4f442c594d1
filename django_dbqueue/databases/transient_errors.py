"""Transient server errors: the same transaction, started again, is likely to succeed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

Result = TypeVar("Result")

ATTEMPTS: Final = 8
SECONDS: Final = 5.0
"""Seconds since the first attempt began, after which no other begins: each may wait as long as the server allows."""

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


def again(work: Callable[[], Result], passing: Callable[[Exception], bool], *, within: float = SECONDS) -> Result:
    """Run ``work``, up to eight times, with jitter, while its errors are transient; start no try after ``within``."""
    began = time.monotonic()
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except Exception as error:
            if attempt == ATTEMPTS - 1 or not passing(error) or time.monotonic() - began >= within:
                raise
        time.sleep(random.uniform(0.2, 1.0) * 0.01 * 2**attempt)
    raise AssertionError("unreachable")  # pragma: no cover
