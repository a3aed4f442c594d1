"""MySQL and MariaDB: the index is forced, ranges are spelled out, and UPDATE returns no rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.network_server import NetworkServer
from django_dbqueue.databases.partitions_sql import MySQLPartitionsSQL
from django_dbqueue.databases.sessions_sql import MySQLSessionsSQL
from django_dbqueue.databases.statement import Statement


class MySQL(NetworkServer):
    """The terms of both servers; neither needs distinguishing."""

    sessions_class = MySQLSessionsSQL
    partitions_class = MySQLPartitionsSQL

    quote = "`"
    now = "UTC_TIMESTAMP(6)"
    session_id = "CONNECTION_ID()"
    database = "DATABASE()"
    use: ClassVar[Mapping[Index, str]] = {each: f" FORCE INDEX ({each})" for each in Index} | {
        Index.IDS: f" FORCE INDEX ({Index.PRIMARY})"
    }
    order_of_dead = "id"
    """MariaDB knows that a column that IS NULL needs no sorting, but sorts if it is named anyway: 5,011 rows for 10."""
    returns_rows = False
    clock_us = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    join_each = "STRAIGHT_JOIN"
    returns_kept_failure = True
    keep_failure = " ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)"
    skips_for_distinct = True
    on_conflict = " ON DUPLICATE KEY UPDATE"
    inserted = "VALUES({})"
    # MariaDB reads a small table in full whatever index it is told to use (measured for 900 of 100,000: 24 ms, not 11)
    deletes_by_list = False

    def plus(self, moment: str, seconds: str) -> str:
        return f"DATE_ADD({moment}, INTERVAL ROUND(({seconds}) * 1000000) MICROSECOND)"

    def as_text(self, moment: str) -> str:
        return f"CAST({moment} AS CHAR)"  # mysqlclient builds a datetime from six slices, in Python: 1 µs each

    def or_nothing(self, table: str, key: str) -> str:
        # Not INSERT IGNORE, which also hides every other error of a row
        same = f"{table}.{key.split(', ')[0]}"
        return f" ON DUPLICATE KEY UPDATE {same} = {same}"

    def update_each(
        self, table: str, given: Statement, sets: str, where: str, index: Index = Index.PRIMARY
    ) -> Statement:
        # By a join from the values, in their order: the servers look nothing up for a list of pairs
        return Statement(
            f"UPDATE {given.sql} STRAIGHT_JOIN {table} AS t{self.use[index]} ON {where} SET {sets}", given.params
        )

    def delete_from(self, table: str, index: Index = Index.PRIMARY) -> str:
        # Only the form of DELETE that is for several tables takes a FORCE INDEX
        return f"DELETE t FROM {table} AS t{self.use[index]}"

    def _delete_joined(self, table: str, given: str, where: str, index: Index) -> str:
        return f"DELETE t FROM {given} STRAIGHT_JOIN {table} AS t{self.use[index]} ON {where}"

    def id_in(self, ids: Sequence[int], column: str = "id") -> Statement:
        # mysqlclient also writes parameters into the text, in one or two Python calls each: 1.5 µs per id
        if len(ids) < 2:
            return super().id_in(ids, column)
        return Statement(f"{column} IN ({', '.join([f'{each:d}' for each in ids])})", ())

    def values(self, names: Sequence[str], rows: Sequence[Sequence[int | str]]) -> Statement:
        texts = [isinstance(each, str) for each in rows[0]]
        types = ["CHAR(64)" if is_text else "BIGINT" for is_text in texts]
        columns = ", ".join(f"{name} {types[place]} PATH '$[{place}]'" for place, name in enumerate(names))
        table = f"JSON_TABLE(%s, '$[*]' COLUMNS ({columns})) AS given"
        if any(texts):  # as hashes are kept, or no index would be used
            hashed = "CONVERT({0} USING ascii) COLLATE ascii_bin AS {0}"
            shown = ", ".join(hashed.format(name) if text else name for name, text in zip(names, texts, strict=True))
            table = f"(SELECT {shown} FROM {table}) AS given"
        return Statement(table, (json.dumps([*map(list, rows)]),))

    def behind(self, columns: tuple[str, str], place: tuple[object, int], *, upto: str = "") -> Statement:
        # neither server uses a range for a row comparison, or for >= with a filter (measured: 2 to 3 times the cost)
        first, second = columns
        end = f" AND {first} <= {upto}" if upto else ""
        return Statement(f"(({first} = %s AND {second} > %s) OR ({first} > %s{end}))", (*place, place[0]))


MYSQL: Final = MySQL()
