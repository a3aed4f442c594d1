"""What PostgreSQL is asked about itself: whether a commit is a commit, and who may create what next to the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from django_dbqueue.databases import facts
from django_dbqueue.databases.facts import Examined, Judgement, ServerFacts
from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.databases.query_plans import postgresql_plan
from django_dbqueue.databases.statement import Statement, holes

SHORTEST_STATEMENT: Final = 30_000
"""Milliseconds that a statement should be let run."""


def driver(of: Examined) -> Iterator[Judgement]:
    """Claims pipeline statements, and workers listen; psycopg 2 can do neither."""
    if not hasattr(of.connection.Database, "ClientCursor"):
        yield Judgement("psycopg 2")


def durability(of: Examined) -> Iterator[Judgement]:
    """Promise P1 holds only as far as the server keeps what it has committed; a session may change it."""
    names = ("synchronous_commit", "fsync", "full_page_writes")
    if weak := [name for name in names if of.answers.get(name) == "off"]:
        cure = f"{' and '.join(weak)} to on"
        yield Judgement("confirms early", {"weak": f"{', '.join(weak)} off", "cure": cure, "crash": "crash"})
        return
    words = {"commit": of.answers.get("synchronous_commit"), "fsync": of.answers.get("fsync")}
    yield Judgement("PostgreSQL confirms late", words)


def isolation(of: Examined) -> Iterator[Judgement]:
    """Judge what OPTIONS have, which is sent with each BEGIN, or else the session's."""
    if "isolation_level" in of.options:
        return facts.isolation(of.connection.isolation_level.name)
    return facts.isolation(of.answers.get("default_transaction_isolation", "read committed"))


def characters(of: Examined) -> Iterator[Judgement]:
    """The encoding is chosen once, when a database is created."""
    encoding = of.answers.get("server_encoding", "UTF8")
    yield Judgement("encoding" if encoding == "UTF8" else "encoding of few", {"encoding": encoding})


def schema(of: Examined) -> Iterator[Judgement]:
    """Others may create objects in a schema on the path, which then run with our rights."""
    if found := of.ask(creators(Tables.message)):
        who = ", ".join(str(grantee) for _schema, grantee in found)
        yield Judgement("others create", {"schema": found[0][0], "who": who})


def read_timeout(of: Examined) -> Iterator[Judgement]:
    """The client has no such timeout, but the operating system has."""
    timeout, limit = of.options.get("tcp_user_timeout"), of.number("statement_timeout")
    yield Judgement("TCP timeout", {"timeout": str(timeout)}) if timeout else Judgement("no TCP timeout")
    if limit and limit < SHORTEST_STATEMENT:
        [(who,)] = of.ask(account())
        yield Judgement("short statements", {"limit": str(limit), "account": who})


def writable(of: Examined) -> Iterator[Judgement]:
    """Judge whether this is the primary, and the session may write."""
    return facts.writable(of.are_on("in_hot_standby", "default_transaction_read_only"))


def storage(tables: Sequence[str]) -> Statement:
    """Read table, persistence ('p', or 'u' for unlogged) and options of those of the tables that exist."""
    return Statement(
        "SELECT relname, relpersistence, COALESCE(array_to_string(reloptions, ' '), '') FROM pg_class "
        f"WHERE pg_table_is_visible(oid) AND relkind IN ('r', 'p') AND relname IN ({holes(len(tables))})",
        tuple(tables),
    )


def unused_indexes(tables: Sequence[str]) -> Statement:
    """Read tables, and indexes that a CREATE INDEX CONCURRENTLY left half built."""
    return Statement(
        "SELECT t.relname, i.relname FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid "
        "JOIN pg_class AS t ON t.oid = x.indrelid WHERE NOT (x.indisvalid AND x.indisready) "
        f"AND pg_table_is_visible(t.oid) AND t.relname IN ({holes(len(tables))})",
        tuple(tables),
    )


def oldest_transactions() -> Statement:
    """Read session and age in seconds of this database's oldest transactions except one's own; NULL where hidden."""
    return Statement(
        "SELECT pid, EXTRACT(EPOCH FROM clock_timestamp() - xact_start)::float FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' "
        f"AND xact_start IS NOT NULL ORDER BY xact_start LIMIT {facts.MOST_SHOWN}",
        (),
    )


def prepared_transactions() -> Statement:
    """Read name and age in seconds of this database's oldest prepared transactions."""
    return Statement(
        "SELECT gid, EXTRACT(EPOCH FROM clock_timestamp() - prepared)::float FROM pg_prepared_xacts "
        f"WHERE database = current_database() ORDER BY prepared LIMIT {facts.MOST_SHOWN}",
        (),
    )


def sees_sessions() -> Statement:
    """Read one row: whether this account may see what other accounts' sessions do."""
    return Statement("SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')", ())


def dead_rows(table: str) -> Statement:
    """Read one row: dead and live rows of a table, as the statistics count them."""
    return Statement("SELECT n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relid = %s::regclass", (table,))


def size(table: str) -> Statement:
    """Read one row: the bytes of a table, without its indexes."""
    return Statement("SELECT pg_relation_size(%s::regclass)", (table,))


def whole_size(table: str) -> Statement:
    """Read one row: the bytes of a table with its indexes, in all of its partitions."""
    return Statement(
        "SELECT GREATEST(pg_total_relation_size(%s::regclass), "
        "(SELECT COALESCE(SUM(pg_total_relation_size(relid)), 0) FROM pg_partition_tree(%s::regclass)))",
        (table, table),
    )


def most_connections() -> Statement:
    """Read one row: how many connections the server takes that are not reserved for its operators."""
    reserved = "(SELECT SUM(setting::int) FROM pg_settings WHERE name IN ({}))"
    names = "'superuser_reserved_connections', 'reserved_connections'"
    return Statement(f"SELECT current_setting('max_connections')::int - {reserved.format(names)}", ())


def connections() -> Statement:
    """Read one row, whose last column is how many connections there are, to all databases."""
    return Statement("SELECT SUM(numbackends) FROM pg_stat_database", ())


def lower_limits() -> Statement:
    """Read, where this account or this database has a limit of its own, how many connections it takes, and has."""
    return Statement(
        "SELECT rolconnlimit, (SELECT COUNT(*) FROM pg_stat_activity WHERE usesysid = r.oid) FROM pg_roles AS r "
        "WHERE rolname = session_user AND rolconnlimit >= 0 AND NOT rolsuper UNION ALL "
        "SELECT datconnlimit, (SELECT numbackends FROM pg_stat_database WHERE datid = d.oid) FROM pg_database AS d "
        "WHERE datname = current_database() AND datconnlimit >= 0",
        (),
    )


def account() -> Statement:
    """Read one row: the session's account."""
    return Statement("SELECT quote_ident(current_user)", ())


def rights_denied(needed: Mapping[str, Sequence[str]]) -> Statement:
    """Read table and privilege of those that this account lacks; ``needed``: privileges by table."""
    pairs = [(table, verb) for table, verbs in needed.items() for verb in verbs]
    return Statement(
        f"SELECT name, wanted FROM (VALUES {', '.join(['(%s, %s)'] * len(pairs))}) AS needed (name, wanted) "
        "WHERE NOT has_table_privilege(name::regclass, wanted)",
        tuple(value for pair in pairs for value in pair),
    )


def counters_denied(tables: Sequence[str]) -> Statement:
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


def creators(table: str) -> Statement:
    """(schema, role) of those that may create objects next to the table, quoted; except owners, superusers, oneself."""
    return Statement(
        "SELECT n.oid::regnamespace::text, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END "
        "FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace, aclexplode(n.nspacl) AS a "
        "WHERE c.oid = to_regclass(%s) AND a.privilege_type = 'CREATE' AND a.grantee NOT IN (n.nspowner, c.relowner) "
        "AND NOT EXISTS (SELECT 1 FROM pg_roles AS r WHERE r.oid = a.grantee "
        "AND (r.rolsuper OR r.rolname = current_user)) ORDER BY 2",
        (table,),
    )


def use_index(_connection: object, _table: str, name: str) -> Statement:
    """Build an index again."""
    return Statement(f"REINDEX INDEX CONCURRENTLY {name}", ())


def wait_briefly(seconds: int) -> Statement:
    """Limit how long the transaction waits for locks."""
    return Statement(f"SET LOCAL lock_timeout = '{seconds}s'", ())


POSTGRESQL_FACTS: Final = ServerFacts(
    settings=Statement("SELECT name, setting FROM pg_settings", ()),
    judges={
        "driver": driver,
        "durability": durability,
        "isolation": isolation,
        "characters": characters,
        "schema": schema,
        "read-timeout": read_timeout,
        "writable": writable,
    },
    explain="EXPLAIN (FORMAT JSON) ",
    read_plan=postgresql_plan,
    idle=("idle_session_timeout", 1000),
    questions={
        "account": account,
        "connections": connections,
        "counters denied": counters_denied,
        "dead rows": dead_rows,
        "lower limits of connections": lower_limits,
        "most connections": most_connections,
        "oldest transactions": oldest_transactions,
        "prepared transactions": prepared_transactions,
        "rights denied": rights_denied,
        "sees sessions": sees_sessions,
        "size": size,
        "storage": storage,
        "unused indexes": unused_indexes,
        "use index": use_index,
        "wait briefly": wait_briefly,
        "whole size": whole_size,
    },
)
