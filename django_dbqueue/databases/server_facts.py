"""What a server is asked about itself, for the checks and the doctor; unless noted, answers are (name, value) rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from django_dbqueue.databases.statement import Statement, holes

MOST_SHOWN: Final = 5
"""Maximum number of rows for facts that are lists."""


def mysql_variables(names: Sequence[str]) -> Statement:
    """Read the session's values; names unknown to this server are left out."""
    return Statement(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({holes(len(names))})", tuple(names))


def mysql_autocommit() -> Statement:
    """Read whether autocommit is on (1) in this session, and by default in new ones."""
    return Statement("SELECT 'session', @@SESSION.autocommit UNION ALL SELECT 'default', @@GLOBAL.autocommit", ())


def mysql_engines(tables: Sequence[str]) -> Statement:
    """Read the storage engines of those of the tables that exist."""
    return Statement(
        "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() "
        f"AND TABLE_TYPE = 'BASE TABLE' AND TABLE_NAME IN ({holes(len(tables))})",
        tuple(tables),
    )


def mysql_collations(tables: Sequence[str]) -> Statement:
    """Read table, column, character set and collation of each text column."""
    return Statement(
        "SELECT TABLE_NAME, COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS "
        f"WHERE TABLE_SCHEMA = DATABASE() AND CHARACTER_SET_NAME IS NOT NULL "
        f"AND TABLE_NAME IN ({holes(len(tables))}) ORDER BY TABLE_NAME, ORDINAL_POSITION",
        tuple(tables),
    )


def mysql_unused_indexes(tables: Sequence[str]) -> Statement:
    """Read tables and the indexes that the optimiser disregards: invisible ones (MySQL), ignored ones (MariaDB)."""
    return Statement(
        "SELECT DISTINCT TABLE_NAME, INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() "
        f"AND TABLE_NAME IN ({holes(len(tables))}) "
        "AND /*M!100600 IGNORED = 'YES' */ /*!80000 IS_VISIBLE = 'NO' */",
        tuple(tables),
    )


def mysql_history_status() -> Statement:
    """Read the length of the history list, where a status variable reports it (MariaDB)."""
    return Statement("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'", ())


def mysql_history_metric() -> Statement:
    """Read the same, where a metric reports it (MySQL); needs the privilege PROCESS."""
    return Statement(
        "SELECT NAME, COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'", ()
    )


def mysql_oldest_transactions() -> Statement:
    """Read session and age in seconds of the oldest transactions except one's own; needs the privilege PROCESS."""
    # trx_started is given in the time zone of the server's system, whatever the session's is
    return Statement(
        "SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, "
        "CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) FROM information_schema.INNODB_TRX "
        f"WHERE trx_mysql_thread_id <> CONNECTION_ID() ORDER BY trx_started LIMIT {MOST_SHOWN}",
        (),
    )


def mysql_knows_zone(zone: str) -> Statement:
    """Read one row: a moment in that time zone, or NULL if the server lacks its time zone table."""
    return Statement("SELECT CONVERT_TZ('2000-01-01 00:00:00', 'UTC', %s)", (zone,))


def mysql_account() -> Statement:
    """Read one row: the session's account, as GRANT names it."""
    return Statement("SELECT CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')", ())


def mysql_tries(table: str, key: str, nothing: str) -> dict[str, Statement]:
    """Return statements that need a privilege on a table and do nothing, by privilege.

    ``nothing``: a value, in SQL, of the column ``key`` that no row has.
    """
    # an EXPLAIN needs what its statement needs
    return {
        "SELECT": Statement(f"EXPLAIN SELECT {key} FROM {table} WHERE {key} = {nothing}", ()),
        "INSERT": Statement(f"EXPLAIN INSERT INTO {table} ({key}) VALUES ({nothing})", ()),
        "UPDATE": Statement(f"EXPLAIN UPDATE {table} SET {key} = {key} WHERE {key} = {nothing}", ()),
        "DELETE": Statement(f"EXPLAIN DELETE FROM {table} WHERE {key} = {nothing}", ()),
    }


def postgresql_settings(names: Sequence[str]) -> Statement:
    """Read the session's values."""
    return Statement(f"SELECT name, setting FROM pg_settings WHERE name IN ({holes(len(names))})", tuple(names))


def postgresql_tables(tables: Sequence[str]) -> Statement:
    """Read table, persistence ('p', or 'u' for unlogged) and options of those of the tables that exist."""
    return Statement(
        "SELECT relname, relpersistence, COALESCE(array_to_string(reloptions, ' '), '') FROM pg_class "
        f"WHERE pg_table_is_visible(oid) AND relkind IN ('r', 'p') AND relname IN ({holes(len(tables))})",
        tuple(tables),
    )


def postgresql_unused_indexes(tables: Sequence[str]) -> Statement:
    """Read tables, and indexes that a CREATE INDEX CONCURRENTLY left half built."""
    return Statement(
        "SELECT t.relname, i.relname FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid "
        "JOIN pg_class AS t ON t.oid = x.indrelid WHERE NOT (x.indisvalid AND x.indisready) "
        f"AND pg_table_is_visible(t.oid) AND t.relname IN ({holes(len(tables))})",
        tuple(tables),
    )


def postgresql_oldest_transactions() -> Statement:
    """Read session and age in seconds of this database's oldest transactions except one's own; NULL where hidden."""
    return Statement(
        "SELECT pid, EXTRACT(EPOCH FROM clock_timestamp() - xact_start)::float FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' "
        f"AND xact_start IS NOT NULL ORDER BY xact_start LIMIT {MOST_SHOWN}",
        (),
    )


def postgresql_prepared_transactions() -> Statement:
    """Read name and age in seconds of this database's oldest prepared transactions."""
    return Statement(
        "SELECT gid, EXTRACT(EPOCH FROM clock_timestamp() - prepared)::float FROM pg_prepared_xacts "
        f"WHERE database = current_database() ORDER BY prepared LIMIT {MOST_SHOWN}",
        (),
    )


def postgresql_sees_sessions() -> Statement:
    """Read one row: whether this account may see what other accounts' sessions do."""
    return Statement("SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')", ())


def postgresql_dead_rows(table: str) -> Statement:
    """Read one row: dead and live rows of a table, as the statistics count them."""
    return Statement("SELECT n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relid = %s::regclass", (table,))


def postgresql_size(table: str) -> Statement:
    """Read one row: the bytes of a table, without its indexes."""
    return Statement("SELECT pg_relation_size(%s::regclass)", (table,))


def postgresql_account() -> Statement:
    """Read one row: the session's account."""
    return Statement("SELECT quote_ident(current_user)", ())


def postgresql_rights_denied(needed: Mapping[str, Sequence[str]]) -> Statement:
    """Read table and privilege of those that this account lacks; ``needed``: privileges by table."""
    pairs = [(table, verb) for table, verbs in needed.items() for verb in verbs]
    return Statement(
        f"SELECT name, wanted FROM (VALUES {', '.join(['(%s, %s)'] * len(pairs))}) AS needed (name, wanted) "
        "WHERE NOT has_table_privilege(name::regclass, wanted)",
        tuple(value for pair in pairs for value in pair),
    )


def postgresql_counters_denied(tables: Sequence[str]) -> Statement:
    """Read the sequences from which these tables draw ids, and this account may not; an identity's needs no right."""
    return Statement(
        "SELECT counter.oid::regclass::text FROM pg_class AS counter JOIN pg_depend AS d ON d.objid = counter.oid "
        "AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'a' "
        f"JOIN pg_class AS t ON t.oid = d.refobjid WHERE t.relname IN ({holes(len(tables))}) "
        "AND pg_table_is_visible(t.oid) "
        # in a CASE, because the server is free to ask all of pg_class first, and fails at what is no sequence
        "AND CASE counter.relkind WHEN 'S' THEN NOT has_sequence_privilege(counter.oid, 'USAGE, UPDATE') END",
        tuple(tables),
    )


def json_read() -> Statement:
    """Read a JSON array's values, each next to itself: SQLite."""
    return Statement("SELECT value, value FROM json_each('[1]')", ())


def sqlite_pragmas() -> Statement:
    """Read how, and whether, this connection writes: ``journal_mode`` is a word, all others are numbers."""
    return Statement(
        "SELECT 'synchronous', synchronous FROM pragma_synchronous UNION ALL "
        "SELECT 'journal_mode', journal_mode FROM pragma_journal_mode UNION ALL "
        "SELECT 'query_only', query_only FROM pragma_query_only UNION ALL "
        "SELECT 'busy_timeout', timeout FROM pragma_busy_timeout",
        (),
    )


def explained(vendor: str, statement: Statement) -> Statement:
    """Ask how the server would run a statement, without running it."""
    how = {"mysql": "FORMAT=TRADITIONAL", "postgresql": "(FORMAT JSON)", "sqlite": "QUERY PLAN"}[vendor]
    return Statement(f"EXPLAIN {how} {statement.sql}", statement.params)


def waits_briefly(vendor: str, seconds: int) -> Statement:
    """Limit how long what follows (on PostgreSQL: in this transaction) waits for locks."""
    words = {
        "mysql": f"SET SESSION lock_wait_timeout = {seconds}, innodb_lock_wait_timeout = {seconds}",
        "postgresql": f"SET LOCAL lock_timeout = '{seconds}s'",
        "sqlite": f"PRAGMA busy_timeout = {1000 * seconds}",
    }
    return Statement(words[vendor], ())


def waits_as_before(vendor: str, said: Mapping[str, str]) -> Statement:
    """Restore what ``waits_briefly`` changed for the session."""
    if vendor == "sqlite":
        return Statement(f"PRAGMA busy_timeout = {int(said['busy_timeout'])}", ())
    table, row = int(said["lock_wait_timeout"]), int(said["innodb_lock_wait_timeout"])
    return Statement(f"SET SESSION lock_wait_timeout = {table}, innodb_lock_wait_timeout = {row}", ())


def postgresql_creators(table: str) -> Statement:
    """(schema, role) of those that may create objects next to the table, quoted; except owners, superusers, oneself."""
    return Statement(
        "SELECT n.oid::regnamespace::text, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END "
        "FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace, aclexplode(n.nspacl) AS a "
        "WHERE c.oid = to_regclass(%s) AND a.privilege_type = 'CREATE' AND a.grantee NOT IN (n.nspowner, c.relowner) "
        "AND NOT EXISTS (SELECT 1 FROM pg_roles AS r WHERE r.oid = a.grantee "
        "AND (r.rolsuper OR r.rolname = current_user)) ORDER BY 2",
        (table,),
    )
