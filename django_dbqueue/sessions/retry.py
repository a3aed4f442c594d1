"""Which database errors are transient, and a retry at the outermost level only.

Inside a caller's transaction nothing is retried: a deadlock has rolled back the caller's work too (InnoDB's 1213 takes
the whole transaction with it), so only the caller can start again. What is done there doesn't rely on the caller's
snapshot (``snapshots``).
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError

from django_dbqueue.databases.refused_errors import MYSQL_REFUSED, MYSQL_SAFE_UPDATES, SQLSTATE_REFUSED
from django_dbqueue.databases.retries import StartAgain
from django_dbqueue.databases.transient_errors import (
    MYSQL_DUPLICATE,
    MYSQL_PASSING,
    MYSQL_VICTIM,
    SQLITE_PASSING,
    SQLSTATE_DUPLICATE,
    SQLSTATE_PASSING,
    SQLSTATE_VICTIM,
    sqlstate_of,
)

_MYSQL_NO_MEMORY: Final = {1037, 1041, 2008}
_SQLSTATE_NO_MEMORY: Final = {"53200"}
_NO_MEMORY: Final = ("out of memory", "cannot allocate memory")
"""The message of PostgreSQL's client, which gives no SQLSTATE."""


def is_passing(error: BaseException) -> bool:
    """Return whether the same transaction, started again, is likely to succeed at once."""
    if not isinstance(error, DatabaseError):
        return isinstance(error, StartAgain)
    known = _is_one_of(error, MYSQL_PASSING, SQLSTATE_PASSING)
    if known is not None:
        return known
    return any(words in str(error) for words in SQLITE_PASSING)


def is_victim(error: BaseException) -> bool:
    """Return whether the server rolled the transaction back for another's sake: a deadlock, a failed serialisation."""
    return isinstance(error, DatabaseError) and bool(_is_one_of(error, MYSQL_VICTIM, SQLSTATE_VICTIM))


def is_duplicate(error: BaseException) -> bool:
    """Return whether the server refused a row because its key is taken."""
    return isinstance(error, DatabaseError) and bool(_is_one_of(error, MYSQL_DUPLICATE, SQLSTATE_DUPLICATE))


def is_refused(error: BaseException) -> bool:
    """Return whether the server refused what was to be written, and not the session or the moment: it always would."""
    if not isinstance(error, DatabaseError) or is_passing(error):
        return False
    code = code_of(error)
    if isinstance(code, int):
        return code in MYSQL_REFUSED or isinstance(error, DataError | IntegrityError)
    if isinstance(code, str):
        return code.startswith(SQLSTATE_REFUSED)
    return isinstance(error, DataError | IntegrityError)


def is_safe_updates(error: BaseException) -> bool:
    """Return whether MySQL took a statement for one that reads a whole table (``sql_safe_updates``)."""
    return isinstance(error, DatabaseError) and code_of(error) in MYSQL_SAFE_UPDATES


def code_of(error: BaseException) -> int | str | None:
    """Return the number or the SQLSTATE that the server gave; None if the driver reports neither."""
    cause = error.__cause__
    code = cause.args[0] if cause is not None and cause.args else None
    return code if isinstance(code, int) else sqlstate_of(cause)


def named(error: BaseException) -> str:
    """Return the error's class and code, in ASCII and without what it says of the data."""
    code = code_of(error)
    return ascii(type(error).__name__)[1:-1] + ("" if code is None else f" {code}")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether this process, or the server for it, had too little memory for what was asked."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return isinstance(error, MemoryError)
    if _is_one_of(error, _MYSQL_NO_MEMORY, _SQLSTATE_NO_MEMORY):
        return True
    return any(words in str(error).lower() for words in _NO_MEMORY)


def _is_one_of(error: DatabaseError | InterfaceError, codes: Set[int], states: Set[str]) -> bool | None:
    """Look for the server's code or SQLSTATE; return None if the driver reports neither."""
    code = code_of(error)
    if isinstance(code, int):
        return code in codes
    return None if code is None else code in states
