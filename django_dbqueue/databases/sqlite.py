"""SQLite: one writer, so nothing to skip or to lock; times are text, UTC, with six digits of a second."""

from __future__ import annotations

from django_dbqueue.databases.base import CLAIM_INDEX, Dialect

_FORMAT = "'%%Y-%%m-%%d %%H:%%M:%%f000'"


class SQLiteDialect(Dialect):
    """The clock has milliseconds; the last three digits are zeros, so that text compares as time."""

    now = f"strftime({_FORMAT}, 'now')"
    use_claim_index = f" INDEXED BY {CLAIM_INDEX}"
    skip_locked = ""
    lock_row = ""

    def plus(self, moment: str, seconds: str) -> str:
        moment = "'now'" if moment == self.now else moment
        return f"strftime({_FORMAT}, {moment}, printf('%%+.6f seconds', {seconds}))"

    def later_of(self, one: str, other: str) -> str:
        return f"MAX({one}, {other})"
