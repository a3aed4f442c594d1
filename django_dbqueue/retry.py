"""Which database errors pass by themselves, and a retry at the outermost level only.

Inside a caller's transaction nothing is retried: a deadlock has rolled back the caller's work too
(InnoDB's 1213 takes the whole transaction with it), so only the caller can begin again. What is done there goes by no
snapshot of the caller's (``snapshots``).
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, Final, TypeVar

from django.db import DatabaseError, InterfaceError

from django_dbqueue.databases.passing import (
    MYSQL_PASSING,
    MYSQL_VICTIM,
    SECONDS,
    SQLITE_PASSING,
    SQLSTATE_PASSING,
    SQLSTATE_VICTIM,
    again,
    sqlstate_of,
)
from django_dbqueue.snapshots import seeing_what_is

Result = TypeVar("Result")

_MYSQL_NO_MEMORY: Final = {1037, 1041, 2008}
_SQLSTATE_NO_MEMORY: Final = {"53200"}
_NO_MEMORY: Final = ("out of memory", "cannot allocate memory")
"""What PostgreSQL's client says, which gives no SQLSTATE."""


def is_passing(error: BaseException) -> bool:
    """Tell whether the same transaction, begun anew, is likely to succeed at once."""
    if not isinstance(error, DatabaseError):
        return False
    known = _is_one_of(error, MYSQL_PASSING, SQLSTATE_PASSING)
    if known is not None:
        return known
    return any(words in str(error) for words in SQLITE_PASSING)


def is_victim(error: BaseException) -> bool:
    """Tell whether the server rolled the transaction back for another's sake: a deadlock, a failed serialisation."""
    return isinstance(error, DatabaseError) and bool(_is_one_of(error, MYSQL_VICTIM, SQLSTATE_VICTIM))


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether this process, or the server for it, had no memory for what was asked."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return isinstance(error, MemoryError)
    if _is_one_of(error, _MYSQL_NO_MEMORY, _SQLSTATE_NO_MEMORY):
        return True
    return any(words in str(error).lower() for words in _NO_MEMORY)


def _is_one_of(error: DatabaseError | InterfaceError, codes: Set[int], states: Set[str]) -> bool | None:
    """Look for the server's code or SQLSTATE; None where the driver tells neither."""
    cause = error.__cause__
    code = cause.args[0] if cause is not None and cause.args else None
    if isinstance(code, int):
        return code in codes
    state = sqlstate_of(cause)
    return None if state is None else state in states


def in_callers_transaction(connection: Any) -> bool:
    """Tell whether only the caller can commit: inside atomic(), or with autocommit off, which begins one by itself."""
    is_open = connection.connection is not None  # else what autocommit was like is said by a session that is gone
    return connection.in_atomic_block or (is_open and not connection.autocommit)


def outermost(
    connection: Any,
    work: Callable[[], Result],
    *,
    passing: Callable[[BaseException], bool] = is_passing,
    within: float = SECONDS,
) -> Result:
    """Run ``work``, again with jitter while errors pass and time is left; once inside a transaction of the caller.

    So a wait for a row's lock that has used up the server's own limit (50 s on MySQL) is not begun anew.
    """
    if not in_callers_transaction(connection):
        return again(work, passing, within=within)
    with seeing_what_is(connection):
        return work()
