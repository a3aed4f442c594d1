"""MySQL and MariaDB: the index is forced, ranges are spelled out, and UPDATE returns no rows.

What a server of them needs is in ``mysql_facts`` and the errors it answers with in ``errors``; ``sessions_sql``,
``partitions_sql``, ``session_traces`` and ``driver`` have what each says of its own subject.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from django_dbqueue.databases.driver import AUTOCOMMITS, MYSQL_DRIVER
from django_dbqueue.databases.errors import Errors
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.mysql_facts import ENGINES, MYSQL_FACTS
from django_dbqueue.databases.partitions_sql import MySQLPartitionsSQL
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.session_traces import MYSQL_TRACES
from django_dbqueue.databases.sessions_sql import MySQLSessionsSQL
from django_dbqueue.databases.statement import Statement
from django_dbqueue.statuses import STATUSES

_VICTIM = frozenset({1020, 1213})  # record changed (MariaDB), deadlock
_SAFE_UPDATES = frozenset({1175})
_OVERSIZED = frozenset({1118, 1153, 1162, 1301, 1406, 1713, 2020})
"""A row, a packet, a string, a value, an undo record, a packet of the client."""
_REFERENCED = frozenset({1216, 1217, 1451, 1452, 1557, 1761, 1762})
_UNSTORABLE = frozenset(
    {1048, 1264, 1265, 1267, 1270, 1271, 1292, 1300, 1364, 1366, 1367, 1411, 1690, 1977, 3140, 3854, 3988}
)
"""NULL, out of range, cut, of another character set or collation (1366, 1300, 1977, 3854, 3988), no number, no JSON."""
_CHECKED = frozenset({1442, 1644, 3819, 4025})
"""A trigger that can't run, or says no; a CHECK (MySQL, MariaDB)."""
_UNABLE = frozenset(
    {*range(1012, 1036), 1036, 1038, 1039, 1046, 1049, *range(1077, 1082), 1099, 1100, 1105, 1114, 1129, 1130, 1135}
    | {*range(1152, 1162), 1180, 1181, 1182, 1192, 1194, 1195, 1206, 1207, 1223, 1290, 1296, 1297, 1317, 1412, 1598}
    | {1613, 1615, 1637, 1665, 1712, 1785, 1792, 1813, 1814, 1815, 1836, 1877, 1878, 1932, 1969, 3024, 3100, 3101}
    | {3168, 3169, *range(2000, 3000)}
)
"""Files, disks and broken tables; read-only; no database; packets; the log of changes; ended or timed out; clients."""
_EXACT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"


class MySQL(Server):
    """The terms of both servers; neither needs distinguishing."""

    vendor = "mysql"
    keeps_savepoints = False
    driver = MYSQL_DRIVER
    facts = MYSQL_FACTS
    traces = MYSQL_TRACES
    errors: ClassVar[Errors] = {
        "victim": _VICTIM,
        "passing": _VICTIM | {1205, 3572},  # a lock wait timeout, an unavailable lock; not what was cancelled (1317)
        "waited": frozenset({1205, 3572}),
        "duplicate": frozenset({1062}),
        "safe updates": _SAFE_UPDATES,
        "refused": _SAFE_UPDATES | _OVERSIZED | _REFERENCED | _UNSTORABLE | _CHECKED | {1062},
        # shutdown, killed (MariaDB), can't connect, gone, lost, ended as idle
        "lost": frozenset({1053, 1927, 2002, 2003, 2006, 2013, 2055, 4031}),
        "full": frozenset({1040, 1203, 1226}),
        "denied": frozenset({1044, 1142, 1143, 1227, 1370}),
        "hidden": frozenset({1227}),
        "shut out": frozenset({1045}),
        "no memory": frozenset({1037, 1041, 2008}),
        "unable": _UNABLE,
        # read-only: an option, which 1290 names (others forbid other things), a transaction, InnoDB; a group's member
        "demoted": frozenset({(1290, "read-only"), 1792, 1836, 3100}),
        "unshowable": frozenset({3854}),
        "untrusted": frozenset({1418, 1419}),
        "characters": frozenset({1366, 3988}),
        "no table": frozenset({1146}),
    }
    sessions = MySQLSessionsSQL()
    partitions = MySQLPartitionsSQL()
    schemes = ("mysql", "mariadb")
    routine_folders = ("mysql",)
    mariadb_routine_folders = ("mariadb", "mysql")
    begin = "START TRANSACTION"  # in MariaDB's sql_mode ORACLE, BEGIN opens a block
    isolates = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
    allows_updates = "SET SESSION sql_safe_updates = 0"
    refuses_updates = "SET SESSION sql_safe_updates = 1"
    autocommits = AUTOCOMMITS
    sees_what_is = "SET STATEMENT innodb_snapshot_isolation = OFF FOR "
    packet = "SELECT @@max_allowed_packet"
    engines = ENGINES
    ascii_type = f"varchar({{}}) {_ASCII}"
    key_type = f"varchar({{}}) {_EXACT}"
    text_type = f"longtext {_EXACT}"
    # It sorts by position in the list. A claim reads on after the last waiting row until it meets a live index entry,
    # so the waiting rows sort last, before the next queue's done ones (docs/decisions/0019)
    status_type = f"enum({', '.join(repr(each) for each in reversed(STATUSES))}) {_ASCII}"

    quote = "`"
    now = "UTC_TIMESTAMP(6)"
    session_id = sessions.id
    database = "DATABASE()"
    use: ClassVar[Mapping[Index, str]] = {each: f" FORCE INDEX ({each})" for each in Index} | {
        Index.IDS: f" FORCE INDEX ({Index.PRIMARY})"
    }
    order_of_dead = "id"
    """MariaDB knows that a column that IS NULL needs no sorting, but sorts if it is named anyway: 5,011 rows for 10."""
    returns_rows = False
    microseconds = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {})"
    join_each = "STRAIGHT_JOIN"
    returns_kept_failure = True
    keep_failure = " ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)"
    skips_for_distinct = True
    on_conflict = " ON DUPLICATE KEY UPDATE"
    inserted = "VALUES({})"
    # MariaDB reads a small table in full whatever index it is told to use (measured for 900 of 100,000: 24 ms, not 11)
    deletes_by_list = False
    as_text = "CAST({} AS CHAR)"  # mysqlclient builds a datetime from six slices, in Python: 1 µs each

    def plus(self, moment: str, seconds: str) -> str:
        return f"DATE_ADD({moment}, INTERVAL ROUND(({seconds}) * 1000000) MICROSECOND)"

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
