"""What servers differ in: words, and fragments that statements are built from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import ClassVar, Final

from django_dbqueue.databases.driver import Driver
from django_dbqueue.databases.errors import Errors
from django_dbqueue.databases.facts import ServerFacts
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.databases.partitions_sql import Partitions
from django_dbqueue.databases.session_traces import Traces
from django_dbqueue.databases.sessions_sql import SessionsSQL
from django_dbqueue.databases.statement import PARKED, Statement, holes


@cache
def _listed(names: tuple[str, ...], quote: str, prefix: str) -> str:
    return ", ".join(f"{prefix}{quote}{name}{quote}" for name in names)


ANY: Final = Statement("", ())
"""What all rows are."""


class Server(Tables, ABC):
    """The words in which servers differ, and the fragments that all statements are built from."""

    vendor: ClassVar[str]
    """As Django names it."""
    schemes: ClassVar[tuple[str, ...]]
    """Those of its URLs."""
    routine_folders: ClassVar[tuple[str, ...]] = ()
    """Where the texts of its stored routines are, the first that has one first; none where it has no routines."""
    mariadb_routine_folders: ClassVar[tuple[str, ...]] = ()
    """The same on MariaDB."""
    has_schemas = False
    """Whether a session finds tables by a path of schemas. DDL is in transactions then, and REPLACE keeps the owner."""
    is_file = False
    """Whether a database is a file: without host, account, sessions, replicas."""
    driver: ClassVar[Driver]
    errors: ClassVar[Errors]
    facts: ClassVar[ServerFacts]
    traces: ClassVar[Traces]
    sessions: ClassVar[SessionsSQL | None] = None
    """Where there is a list of sessions, and named locks."""
    partitions: ClassVar[Partitions | None] = None
    begin = "BEGIN"
    """Begins a READ COMMITTED transaction, if ``isolates`` came first."""
    begin_mode = ""
    """Django's ``transaction_mode`` that does the same, on SQLite."""
    isolates = ""
    """Makes the next transaction READ COMMITTED, where ``begin`` can't say so."""
    allows_updates = ""
    """Lets the session change rows by joins, which MariaDB's ``sql_safe_updates`` refuses."""
    refuses_updates = ""
    """Undoes that."""
    autocommits = ""
    """Switches autocommit on where a session may begin without it, and the driver believes otherwise."""
    sees_what_is = ""
    """Begins a statement that MariaDB's ``innodb_snapshot_isolation`` is not to apply to."""
    packet = ""
    """Reads how many bytes the server takes at once in this session, if that is bounded."""
    engines = ""
    """Reads the storage engines of tables, {}, where some have no transactions."""
    has_zones = False
    """Whether moments in columns have a time zone, and those in parameters must have one; else all are UTC."""
    ascii_type = "varchar({})"
    """The column's type for ASCII text of at most {} characters, compared by code point."""
    key_type = "varchar({})"
    """The column's type for any text of at most {} characters; only the same code points are equal."""
    text_type = "text"
    """The column's type for text of any length."""
    status_type = "varchar({})"
    """The column's type for a message's status, of at most {} characters."""

    quote = '"'
    now = ""
    parked = f"'{PARKED}'"
    """SQL for the moment at which a message is due that waits for something other than time."""
    session_id = ""
    """SQL for the id of the database session, that of ``sessions``, or '' where the caller passes a number."""
    use: ClassVar[Mapping[Index, str]] = dict.fromkeys(Index, "")
    """What follows a table's name so that the server uses this index, where it must be told."""
    order_of_dead = "available_at, id"
    """The claim index's order where ``available_at`` is NULL, in the form the planner recognises."""
    order_of_few = "id"
    """Orders rows by id where an index other than the primary key is to find them."""
    keep_order = ""
    """Makes rows come in index order for the transaction, however few the server believes there are."""
    forget_order = ""
    """Undoes that."""
    skip_locked = " FOR UPDATE SKIP LOCKED"
    lock_row = " FOR UPDATE"
    rows_of_an_insert = 500
    """At most, in one statement."""
    returns_rows = True
    """Whether a statement that changes rows, or inserts those whose keys are free, can return them."""
    keeps_entries = True
    """Whether a claimed row's entry stays in the claim index until it is purged, so that a claim begins behind it."""
    keeps_savepoints = True
    """Whether the victim of a deadlock may continue from a savepoint; else nothing is left of its transaction."""
    returns_kept_failure = False
    """Whether an INSERT that meets the same group returns its id as the last inserted one; else it returns no row."""
    keep_failure = " ON CONFLICT (queue, fingerprint) DO NOTHING RETURNING id"
    on_conflict = " ON CONFLICT ({}) DO UPDATE SET"
    """Ends an INSERT that changes the row of the same key; what it sets follows."""
    inserted = "excluded.{}"
    """SQL for what the INSERT has in a column."""
    rows_from_json = False
    """Whether many rows are inserted from one parameter: psycopg's cost is that of their number."""
    deletes_by_list = True
    """Whether a DELETE for a list of one column's values reads these rows and no others. For a join with few values,
    PostgreSQL may read a whole table."""
    joins_lists = False
    """Whether a list of keys, or of ranges of ids, is looked up by a join from its values; else by IN and OR."""
    skips_for_distinct = False
    """Whether DISTINCT over the first columns of an index skips; else a recursion reads one entry for each answer."""
    copies = False
    """Whether COPY brings rows in and out."""
    notifies = False
    ids_interleave = False
    """Whether rows that others insert at the same time have ids between those of one statement."""
    database = "''"
    """SQL for the name of the database, where all databases of a server share named locks."""
    size_of = "OCTET_LENGTH({})"
    """SQL for the bytes of a text, without reading it if the server can."""
    joined = "CONCAT({}, {}, {})"
    as_text = "{}"
    """SQL for a moment as ISO 8601 text, where the driver's own form is different and expensive."""

    microseconds = ""
    """SQL for a moment as a whole number of microseconds since 1970."""
    join_each = "JOIN"
    """Joins a table of values with a table in which each value is looked up, in this order."""

    def clock(self) -> Statement:
        """Read the server's clock."""
        return Statement(f"SELECT {self.now}", ())

    @cached_property
    def clock_us(self) -> str:
        """SQL for the clock's time as a whole number of microseconds since 1970."""
        return self.microseconds.format(self.now)

    @property
    def is_paused(self) -> str:
        """SQL for 'a pause of this queue holds': its end, if it has one, is still to come."""
        return f"is_paused AND (paused_until IS NULL OR paused_until > {self.now})"

    @abstractmethod
    def plus(self, moment: str, seconds: str) -> str:
        """Return SQL for a moment plus a number of seconds (both SQL)."""

    @cached_property
    def from_now(self) -> str:
        """SQL for the clock plus a number of seconds, a parameter."""
        return self.plus(self.now, "%s")

    def behind(self, columns: tuple[str, str], place: tuple[object, int], *, upto: str = "") -> Statement:
        """Return the condition that a row comes after a place in the order of an index of two columns.

        ``upto`` is SQL for the last value of the first column that counts.
        """
        end = f" AND {columns[0]} <= {upto}" if upto else ""
        return Statement(f"({', '.join(columns)}) > (%s, %s){end}", place)

    def columns(self, names: Sequence[str], prefix: str = "") -> str:
        """Return the names as a quoted column list."""
        return _listed(tuple(names), self.quote, prefix)

    @abstractmethod
    def values(self, names: Sequence[str], rows: Sequence[Sequence[int | str]]) -> Statement:
        """Return SQL for a table called ``given`` of whole numbers and of hashes, in this order; its columns' names."""

    def or_nothing(self, table: str, key: str) -> str:  # noqa: ARG002
        """Return the end of an INSERT that writes no row where another one has the same ``key`` (columns) already."""
        return f" ON CONFLICT ({key}) DO NOTHING"

    def or_replace(self, table: str, key: str, columns: Sequence[str], *, if_expired: bool = False) -> str:
        """Return the end of an INSERT that replaces these columns of the row that has the same key.

        ``if_expired``: only once its ``expires_at`` has passed. That is the last of the columns then, since all of them
        read it, and MySQL changes them in their order.
        """
        assert not if_expired or columns[-1] == "expires_at"
        news = {each: self.inserted.format(each) for each in columns}
        if if_expired:
            is_expired = f"{table}.expires_at <= {self.now}"
            news = {each: f"CASE WHEN {is_expired} THEN {new} ELSE {table}.{each} END" for each, new in news.items()}
        return f"{self.on_conflict.format(key)} {', '.join(f'{each} = {new}' for each, new in news.items())}"

    def update_each(
        self,
        table: str,
        given: Statement,
        sets: str,
        where: str,
        index: Index = Index.PRIMARY,  # noqa: ARG002
    ) -> Statement:
        """Change a row ``t`` for each row of ``given`` (``values``), whose columns are named as no column of the table.

        ``where`` says which row it is, by the first columns of the index.
        """
        return Statement(f"UPDATE {table} AS t SET {sets} FROM {given.sql} WHERE {where}", given.params)

    def delete_from(self, table: str, index: Index = Index.PRIMARY) -> str:  # noqa: ARG002
        """Return the beginning of a DELETE of the rows in one range of an index."""
        return f"DELETE FROM {table}"

    def delete_each(
        self,
        table: str,
        columns: tuple[str, ...],
        rows: Sequence[Sequence[int | str]],
        *,
        such: Statement = ANY,
        index: Index = Index.PRIMARY,
    ) -> Statement:
        """Delete the rows ``t`` that have these values in the first columns of an index, and are such.

        It looks them up one by one: whatever reads more would wait for everybody's locks.
        """
        if len(columns) == 1 and self.deletes_by_list:
            named = self._one_of(columns[0], [value for [value] in rows])
            return Statement(f"DELETE FROM {table} WHERE {named.sql}{such.sql}", (*named.params, *such.params))
        given = self.values(tuple(f"given_{each}" for each in columns), rows)
        same = " AND ".join(f"t.{each} = given.given_{each}" for each in columns)
        sql = self._delete_joined(table, given.sql, f"{same}{such.sql}", index)
        return Statement(sql, (*given.params, *such.params))

    def _delete_joined(self, table: str, given: str, where: str, index: Index) -> str:  # noqa: ARG002
        return f"DELETE FROM {table} AS t USING {given} WHERE {where}"

    def _one_of(self, column: str, values: Sequence[int | str]) -> Statement:
        if isinstance(values[0], str):
            return Statement(f"{column} IN ({holes(len(values))})", tuple(values))
        return self.id_in([int(each) for each in values], column)

    def id_in(self, ids: Sequence[int], column: str = "id") -> Statement:
        """Return the condition that a row has one of these ids."""
        return Statement(f"{column} IN ({holes(len(ids))})", tuple(ids))

    def later_of(self, one: str, other: str) -> str:
        """Return SQL for the later of two moments."""
        return f"GREATEST({one}, {other})"
