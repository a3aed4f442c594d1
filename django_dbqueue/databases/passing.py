"""Errors of servers that pass by themselves: the same transaction, begun anew, is likely to succeed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

ATTEMPTS: Final = 8

MYSQL_PASSING: Final = frozenset({1020, 1205, 1213, 1317, 3572})
"""Record changed (MariaDB), lock wait, deadlock, interrupted statement, lock not available."""
SQLSTATE_PASSING: Final = frozenset({"40001", "40P01", "55P03", "57014"})
"""Serialisation failure, deadlock, lock not available, cancelled statement."""
SQLITE_PASSING: Final = ("database is locked", "database table is locked")
MYSQL_LOST: Final = frozenset({1053, 1927, 2002, 2003, 2006, 2013, 2055, 4031})
"""Shutdown, killed (MariaDB), can't connect, gone, lost, ended for its idleness: did a commit arrive?"""
MYSQL_FULL: Final = frozenset({1040, 1203, 1226})
"""No session is left: of the server, or of the account."""
SQLSTATE_FULL: Final = frozenset({"53300"})
SQLSTATE_LOST: Final = ("08", "57P")
"""Beginnings: connection exceptions, and a server that ends sessions."""


def sqlstate_of(error: Any) -> str | None:
    """Return the SQLSTATE that psycopg tells of, which psycopg 2 calls ``pgcode``; None where there is none."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def again(work: Callable[[], Result], passing: Callable[[Exception], bool]) -> Result:
    """Run ``work``, up to eight times within a second or two, with jitter, while its errors pass."""
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except Exception as error:
            if attempt == ATTEMPTS - 1 or not passing(error):
                raise
        time.sleep(random.uniform(0.2, 1.0) * 0.01 * 2**attempt)
    raise AssertionError("unreachable")  # pragma: no cover
