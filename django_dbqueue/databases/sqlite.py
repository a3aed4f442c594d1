"""SQLite: one writer, so nothing to skip or to lock; times are text, UTC, with six fractional digits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from django_dbqueue.databases.driver import SQLITE_DRIVER
from django_dbqueue.databases.errors import Errors
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.session_traces import SQLITE_TRACES
from django_dbqueue.databases.sqlite_facts import SQLITE_FACTS
from django_dbqueue.databases.statement import Statement

_FORMAT = "'%%Y-%%m-%%d %%H:%%M:%%f000'"


class SQLite(Server):
    """SQLite's terms. The clock has milliseconds; the last three digits are zeros, so text compares as time."""

    vendor = "sqlite"
    driver = SQLITE_DRIVER
    facts = SQLITE_FACTS
    traces = SQLITE_TRACES
    errors: ClassVar[Errors] = {
        **dict.fromkeys(("passing", "waited"), frozenset({"database is locked", "database table is locked"})),
        "no table": frozenset({"no such table"}),
    }
    schemes = ("sqlite",)
    is_file = True
    begin_mode = "IMMEDIATE"
    begin = f"BEGIN {begin_mode}"
    """A reader that becomes a writer is refused without waiting."""

    now = f"strftime({_FORMAT}, 'now')"
    use: ClassVar[Mapping[Index, str]] = dict.fromkeys(Index, "") | {
        Index.CLAIM: f" INDEXED BY {Index.CLAIM}",
        Index.EVENT_AGE: f" INDEXED BY {Index.EVENT_AGE}",
        Index.IDS: " NOT INDEXED",  # which leaves the rowid: https://sqlite.org/lang_indexedby.html
    }
    skip_locked = ""
    lock_row = ""
    microseconds = "(CAST(ROUND((julianday({}) - 2440587.5) * 86400000.0) AS INTEGER) * 1000)"
    join_each = "CROSS JOIN"
    rows_of_an_insert = 60
    # So there is nothing to jump over; and of a mark's two columns only the first bounds a range here (500 claimed rows
    # due at the same moment: 17 times the cost)
    keeps_entries = False
    joins_lists = True
    joined = "{} || {} || {}"
    size_of = "LENGTH(CAST({} AS BLOB))"  # OCTET_LENGTH(), which reads nothing, came with 3.43
    as_text = "+{}"  # no declared type, for which Django would build a datetime, in Python: 1 µs each

    def plus(self, moment: str, seconds: str) -> str:
        moment = "'now'" if moment == self.now else moment
        return f"strftime({_FORMAT}, {moment}, printf('%%+.6f seconds', {seconds}))"

    def values(self, names: Sequence[str], rows: Sequence[Sequence[int | str]]) -> Statement:
        columns = ", ".join(f"json_extract(value, '$[{place}]') AS {name}" for place, name in enumerate(names))
        return Statement(f"(SELECT {columns} FROM json_each(%s)) AS given", (json.dumps([*map(list, rows)]),))

    def _delete_joined(self, table: str, given: str, where: str, index: Index) -> str:  # noqa: ARG002
        # With statistics, it would rather read the whole table than look up a list of pairs
        rows = f"SELECT t.rowid FROM {given} {self.join_each} {table} AS t ON {where}"
        return f"DELETE FROM {table} WHERE rowid IN ({rows})"

    def id_in(self, ids: Sequence[int], column: str = "id") -> Statement:
        # One statement for any number: the driver prepares, and caches, one for each number of placeholders
        if len(ids) == 1:
            return Statement(f"{column} IN (%s)", tuple(ids))
        return Statement(f"{column} IN (SELECT value FROM json_each(%s))", (f"[{', '.join(map(str, ids))}]",))

    def later_of(self, one: str, other: str) -> str:
        return f"MAX({one}, {other})"


SQLITE: Final = SQLite()
