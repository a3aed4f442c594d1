"""What the errors of servers say, as far as code acts on it.

A server's table has, by kind, numbers (MySQL's and MariaDB's), or such a number with what the text has in any language;
SQLSTATEs, or their prefixes; and, where a driver gives no code, words of the text. They are told apart, so nobody needs
to know whose error it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from sqlite3 import SQLITE_ERROR
from typing import Final, Literal

Kind = Literal[
    "passing",  # the same transaction, started again, is likely to succeed; not what somebody, or a time limit, ended
    "victim",  # the server rolled the transaction back for another's sake
    "duplicate",  # the row's key is taken
    "refused",  # sent again, it would be again: one row, a foreign key to it, a constraint, a trigger, a large value
    "safe updates",  # a session with sql_safe_updates took a statement for one that reads a whole table
    "lost",  # the session ended, or can't begin: did a commit arrive?
    "full",  # no session is left, for the server or for the account
    "denied",  # the account lacks a privilege
    "hidden",  # one of these: the privilege to see other accounts' sessions
    "shut out",  # the server doesn't let the account in
    "waited",  # a wait for somebody's lock timed out
    "no memory",  # of the server, or of its client
    "unable",  # it can't write, or run a statement to its end, now: full disk, read-only, a broken table, a time limit
    "demoted",  # it takes no writes: another server may be the writer now
    "unshowable",  # the server can't show a list because a statement in it has a four-byte character
    "untrusted",  # only an administrator may create a stored function, because of the binary log
    "characters",  # the column's character set lacks one
    "no table",
]
"""After an outage the same statement is repeated. What is neither *refused* nor one of these is judged by what the
server does when it is repeated (``sessions.doubts``): a trigger may fail with any code."""
OUTAGES: Final[tuple[Kind, ...]] = ("passing", "lost", "full", "denied", "shut out", "waited", "no memory", "unable")
Codes = frozenset[int | str | tuple[int, str]]
Errors = Mapping[Kind, Codes]

_LONGEST_STATE: Final = 5


def code_of(error: BaseException) -> int | str | None:
    """Return the number or the SQLSTATE of a driver's error, or of Django's; None if the driver reports neither."""
    for each in (error.__cause__, error):
        if each is not None:
            code = each.args[0] if each.args else None
            found = code if isinstance(code, int) else getattr(each, "sqlstate", None)
            if found is not None:
                return found
    return None


def is_among(error: BaseException, codes: Codes) -> bool:
    """Return whether an error has one of these codes or, if it has none, one of the texts."""
    code = code_of(error)
    if isinstance(code, int):
        text = str(error)
        return code in codes or any(isinstance(each, tuple) and each[0] == code and each[1] in text for each in codes)
    words = [each for each in codes if isinstance(each, str)]
    if code is not None:
        return code.startswith(tuple(each for each in words if len(each) <= _LONGEST_STATE))
    text = str(error).lower()
    return any(each in text for each in words if len(each) > _LONGEST_STATE)


def is_of_a_statement(error: BaseException) -> bool:
    """Return whether it is a server's answer to a statement, and not a lost session, as far as the driver says."""
    if code_of(error) is None:  # SQLite has one code for all that is not about the file
        return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF == SQLITE_ERROR
    return bool(code_of(error))
