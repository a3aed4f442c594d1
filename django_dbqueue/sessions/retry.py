"""Which database errors are transient, and which are about one row; a retry at the outermost level only.

Inside a caller's transaction nothing is retried: a deadlock has rolled back the caller's work too (InnoDB's 1213 takes
the whole transaction with it), so only the caller can start again. What is done there doesn't rely on the caller's
snapshot (``snapshots``).
"""

from __future__ import annotations

import re
import time
from typing import Final

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, OperationalError

from django_dbqueue.databases import means
from django_dbqueue.databases.errors import OUTAGES, code_of, is_of_a_statement
from django_dbqueue.databases.retries import StartAgain

_NO_MEMORY: Final = ("out of memory", "cannot allocate memory")
"""What servers say with various codes, and clients with none."""
_REMEMBERED: Final = 60.0
"""Seconds for which an error that was judged to be about a row isn't judged again."""
_MOST: Final = 1_000
_judged: Final[dict[str, float]] = {}
"""Until when, by what tells the error from others."""


class Overtaken(OperationalError, StartAgain):
    """Others were first whenever ours was started again; or the transaction is its caller's, who has to start it."""


def is_passing(error: BaseException) -> bool:
    """Return whether the same transaction, started again, is likely to succeed at once."""
    return isinstance(error, StartAgain) or (isinstance(error, DatabaseError) and means(error, "passing"))


def is_victim(error: BaseException) -> bool:
    """Return whether the server rolled the transaction back for another's sake: a deadlock, a failed serialisation."""
    return isinstance(error, DatabaseError) and means(error, "victim")


def is_duplicate(error: BaseException) -> bool:
    """Return whether the server refused a row because its key is taken."""
    return isinstance(error, DatabaseError) and means(error, "duplicate")


def is_refused(error: BaseException) -> bool:
    """Return whether the server refused what was to be written, and not the session or the moment: it always would."""
    if not isinstance(error, DatabaseError) or is_passing(error):
        return False
    # by the class, too, unless a SQLSTATE says all
    return (
        means(error, "refused")
        or (isinstance(error, DataError | IntegrityError) and type(code_of(error)) is not str)
        or _judged.get(distinct(error), 0.0) > time.monotonic()
    )


def is_doubtful(error: BaseException) -> bool:
    """Return whether only repeating it tells if the server refuses one row, or can't do its work."""
    if not isinstance(error, DatabaseError) or is_refused(error) or is_out_of_memory(error):
        return False
    return is_of_a_statement(error) and not any(means(error, kind) for kind in OUTAGES)


def judge_refused(error: BaseException) -> None:
    """Take the error, for a while, for one of a row: the server has given it again and again."""
    if len(_judged) >= _MOST:
        _judged.clear()  # a trigger's texts may be endless
    _judged[distinct(error)] = time.monotonic() + _REMEMBERED


def distinct(error: BaseException) -> str:
    """Return what tells an error from others: its code and its text, without the numbers of rows."""
    return f"{code_of(error)} {re.sub('[0-9]+', '', str(error))}"


def named(error: BaseException) -> str:
    """Return the error's class and code, in ASCII and without what it says of the data."""
    code = code_of(error)
    return ascii(type(error).__name__)[1:-1] + ("" if code is None else f" {code}")


def in_one_line(error: BaseException) -> str:
    """Return the error's class, its code, and up to 500 characters of its text, in ASCII: for the log alone."""
    return f"{named(error)}: {ascii(' '.join(str(error).split()))[1:-1]:.500}"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether this process, or the server for it, had too little memory for what was asked."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return isinstance(error, MemoryError)
    return means(error, "no memory") or any(words in str(error).lower() for words in _NO_MEMORY)
