"""What MySQL and MariaDB must be, and are asked about: whether a commit is a commit, a value is kept whole, and a lost
connection is noticed.

MySQL 8.0.22 or MariaDB 10.6, with InnoDB, a strict ``sql_mode`` and one writer. The queue's own transactions are READ
COMMITTED, whatever the session is (``MySQL.isolates``). The texts and severities are those of ``checks/wrong_servers``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from django_dbqueue.databases import facts
from django_dbqueue.databases.facts import ON, Examined, Judgement, ServerFacts
from django_dbqueue.databases.query_plans import mysql_plan
from django_dbqueue.databases.sessions_sql import MYSQL_PROCESS_LIST
from django_dbqueue.databases.statement import Statement, holes

ENGINES: Final = (
    "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() "
    "AND TABLE_TYPE = 'BASE TABLE' AND TABLE_NAME IN ({})"
)
_AUTOCOMMIT: Final = Statement("SELECT @@SESSION.autocommit, @@GLOBAL.autocommit", ())
_STRICT: Final = {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL"}
_OVERHEAD: Final = 96 * 1024
"""Bytes of an INSERT besides its body: key, headers, the types beside them, which have as much room, and the statement.
"""
_READ_ONLY: Final = (
    "read_only",
    "super_read_only",
    "innodb_read_only",
    "offline_mode",
    "transaction_read_only",
    "tx_read_only",
)


def skip_locked(of: Examined) -> Iterator[Judgement]:
    """Without it claimers wait for each other, or deadlock. MySQL has a table of sessions since 8.0.22."""
    version = of.connection.mysql_version
    if not of.connection.features.has_select_for_update_skip_locked:
        yield Judgement("no SKIP LOCKED")
    elif not of.connection.mysql_is_mariadb and version < (8, 0, 22):
        yield Judgement("no list of sessions", {"version": ".".join(map(str, version))})


def storage(of: Examined) -> Iterator[Judgement]:
    """Judge the tables' engines. Missing tables are no error: ``migrate`` asks before creating them."""
    found = of.ask(Statement(ENGINES.format(holes(len(of.tables))), tuple(of.tables)))
    weak = [(table, engine) for table, engine in found if str(engine).lower() != "innodb"]
    for table, engine in weak:
        yield Judgement("no transactions", {"table": table, "engine": engine})
    if not weak:
        yield Judgement("InnoDB")


def sql_mode(of: Examined) -> Iterator[Judgement]:
    """A session that is not strict stores what fits, and reports nothing."""
    mode = of.answers.get("sql_mode", "")
    yield (
        Judgement("not strict", {"mode": mode}) if _STRICT.isdisjoint(mode.upper().split(",")) else Judgement("strict")
    )


def binary_log(of: Examined) -> Iterator[Judgement]:
    """Only STATEMENT is wrong: with MIXED, InnoDB logs rows of READ COMMITTED transactions (the queue's are)."""
    form = of.answers.get("binlog_format", "ROW") if of.are_on("log_bin") else None
    if form is not None and form.upper() == "STATEMENT":
        yield Judgement("statements logged")
    else:
        yield Judgement("logged well", {"form": Judgement("off") if form is None else form})


def durability(of: Examined) -> Iterator[Judgement]:
    """Promise P1 holds only as far as the server keeps what it has committed, and commits at all."""
    answers, logs = of.answers, of.are_on("log_bin")
    flush, sync = answers.get("innodb_flush_log_at_trx_commit", "1"), answers.get("sync_binlog", "1")
    weak = [f"innodb_flush_log_at_trx_commit is {flush}"] if flush != "1" else []
    if logs and sync != "1":
        weak.append(f"sync_binlog is {sync}")
    found = list(autocommit(of))
    if weak:
        cure = "innodb_flush_log_at_trx_commit = 1 and sync_binlog = 1"
        found.insert(
            0, Judgement("confirms early", {"weak": ", ".join(weak), "cure": cure, "crash": "crash of the machine"})
        )
    log = Judgement("synced log", {"sync": sync}) if logs else Judgement("no log")
    yield from found or [Judgement("InnoDB confirms late", {"flush": flush, "logs": log})]


def autocommit(of: Examined) -> Iterator[Judgement]:
    """Ask the server, because Django and the driver only report what they believe."""
    [(session, default)] = of.ask(_AUTOCOMMIT)
    if of.connection.get_autocommit() and not session:
        yield Judgement("session without autocommit")
    elif not default:
        yield Judgement("server without autocommit")


def isolation(of: Examined) -> Iterator[Judgement]:
    """Judge the session's, under whichever name the server has for it."""
    answers = of.answers
    return facts.isolation(answers.get("transaction_isolation") or answers.get("tx_isolation", "READ-COMMITTED"))


def read_timeout(of: Examined) -> Iterator[Judgement]:
    """By default, the driver waits forever; and it must not mistake a wait for a lock for a server that is gone."""
    timeout, wait = of.options.get("read_timeout"), of.number("innodb_lock_wait_timeout")
    yield Judgement("read timeout", {"timeout": str(timeout)}) if timeout else Judgement("no read timeout")
    if timeout and wait is not None and timeout <= wait:
        yield Judgement("read timeout too short", {"timeout": str(timeout), "wait": str(wait)})


def packet_size(of: Examined) -> Iterator[Judgement]:
    """Escaping may double a body, and also the rows that are sent together."""
    packet = of.number("max_allowed_packet")
    if of.largest is None or packet is None:
        return
    needed, together = 2 * of.largest + _OVERHEAD, 2 * of.sent_together + _OVERHEAD
    words = {"packet": packet, "limit": of.largest, "needed": needed, "together": together}
    if packet < needed:
        allowed = max((packet - _OVERHEAD) // 2, 1)
        yield Judgement("small packets", {**words, "wanted": max(needed, together), "allowed": allowed})
    elif packet < together:
        yield Judgement("small packets for many", words)
    else:
        yield Judgement("large packets", words)


def characters(of: Examined) -> Iterator[Judgement]:
    """The columns are utf8mb4, so the connection must be, too."""
    charset = of.answers.get("character_set_client", "utf8mb4")
    yield Judgement("characters" if charset == "utf8mb4" else "few characters", {"charset": charset})


def cluster(of: Examined) -> Iterator[Judgement]:
    """Row locks end at the node."""
    group = of.answers.get("group_replication_single_primary_mode", "ON").upper() in {"OFF", "0"}
    if of.are_on("wsrep_on") or group:
        name = "Galera" if of.are_on("wsrep_on") else "Group Replication"
        yield Judgement("several writers", {"cluster": name})
    else:
        yield Judgement("one writer")


def writable(of: Examined) -> Iterator[Judgement]:
    """Judge whether this server is the one that is written to."""
    forbids = {*ON, "NO_LOCK", "NO_LOCK_NO_ADMIN"}
    return facts.writable([each for each in _READ_ONLY if of.answers.get(each) in forbids])


def collations(tables: Sequence[str]) -> Statement:
    """Read table, column, character set and collation of each text column."""
    return Statement(
        "SELECT TABLE_NAME, COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS "
        f"WHERE TABLE_SCHEMA = DATABASE() AND CHARACTER_SET_NAME IS NOT NULL "
        f"AND TABLE_NAME IN ({holes(len(tables))}) ORDER BY TABLE_NAME, ORDINAL_POSITION",
        tuple(tables),
    )


def unused_indexes(tables: Sequence[str]) -> Statement:
    """Read tables and the indexes that the optimiser disregards: invisible ones (MySQL), ignored ones (MariaDB)."""
    return Statement(
        "SELECT DISTINCT TABLE_NAME, INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() "
        f"AND TABLE_NAME IN ({holes(len(tables))}) "
        "AND /*M!100600 IGNORED = 'YES' */ /*!80000 IS_VISIBLE = 'NO' */",
        tuple(tables),
    )


def history_status() -> Statement:
    """Read the length of the history list, where a status variable reports it (MariaDB)."""
    return Statement("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'", ())


def history_metric() -> Statement:
    """Read the same, where a metric reports it (MySQL); needs the privilege PROCESS."""
    return Statement(
        "SELECT NAME, COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'", ()
    )


def oldest_transactions() -> Statement:
    """Read session and age in seconds of the oldest transactions except one's own; needs the privilege PROCESS."""
    # trx_started is given in the time zone of the server's system, whatever the session's is
    return Statement(
        "SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, "
        "CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) FROM information_schema.INNODB_TRX "
        f"WHERE trx_mysql_thread_id <> CONNECTION_ID() ORDER BY trx_started LIMIT {facts.MOST_SHOWN}",
        (),
    )


def whole_size(table: str) -> Statement:
    """Read one row: the bytes of a table with its indexes, in all of its partitions, as the statistics have them."""
    return Statement(
        "SELECT COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) FROM information_schema.TABLES "
        "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
        (table,),
    )


def most_connections() -> Statement:
    """Read one row: how many connections the server takes."""
    return Statement("SELECT @@GLOBAL.max_connections", ())


def connections() -> Statement:
    """Read one row, whose last column is how many connections there are."""
    return Statement("SHOW GLOBAL STATUS LIKE 'Threads_connected'", ())


def lower_limits() -> Statement:
    """Read, where this account has a limit of its own, how many connections it may have, and how many it has."""
    own, limit = "USER = SUBSTRING_INDEX(USER(), '@', 1)", "@@SESSION.max_user_connections"
    return Statement(f"SELECT {limit}, COUNT(*) FROM {MYSQL_PROCESS_LIST} WHERE {own} HAVING {limit} > 0", ())


def knows_zone(zone: str) -> Statement:
    """Read one row: a moment in that time zone, or NULL if the server lacks its time zone table."""
    return Statement("SELECT CONVERT_TZ('2000-01-01 00:00:00', 'UTC', %s)", (zone,))


def account() -> Statement:
    """Read one row: the session's account, as GRANT names it."""
    return Statement("SELECT CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')", ())


def try_rights(verb: str, table: str, key: str, nothing: str) -> Statement:
    """Return what needs a privilege on a table, and does nothing: an EXPLAIN needs what its statement needs.

    ``nothing``: a value, in SQL, of the column ``key`` that no row has.
    """
    statements = {
        "SELECT": f"SELECT {key} FROM {table} WHERE {key} = {nothing}",
        "INSERT": f"INSERT INTO {table} ({key}) VALUES ({nothing})",
        "UPDATE": f"UPDATE {table} SET {key} = {key} WHERE {key} = {nothing}",
        "DELETE": f"DELETE FROM {table} WHERE {key} = {nothing}",
    }
    return Statement(f"EXPLAIN {statements[verb]}", ())


def use_index(connection: Any, table: str, name: str) -> Statement:
    """Let the optimiser use an index again."""
    word = "NOT IGNORED" if connection.mysql_is_mariadb else "VISIBLE"
    return Statement(f"ALTER TABLE {table} ALTER INDEX {name} {word}", ())


def wait_briefly(seconds: int) -> Statement:
    """Limit how long the session waits for locks."""
    return Statement(f"SET SESSION lock_wait_timeout = {seconds}, innodb_lock_wait_timeout = {seconds}", ())


def wait_as_before(answers: Mapping[str, str]) -> Statement:
    """Restore what that changed."""
    table, row = int(answers["lock_wait_timeout"]), int(answers["innodb_lock_wait_timeout"])
    return Statement(f"SET SESSION lock_wait_timeout = {table}, innodb_lock_wait_timeout = {row}", ())


MYSQL_FACTS: Final = ServerFacts(
    settings=Statement("SHOW SESSION VARIABLES", ()),
    to_see="GRANT PROCESS ON *.* TO %(account)s",
    judges={
        "skip-locked": skip_locked,
        "storage": storage,
        "sql-mode": sql_mode,
        "binary-log": binary_log,
        "durability": durability,
        "isolation": isolation,
        "read-timeout": read_timeout,
        "packet-size": packet_size,
        "characters": characters,
        "cluster": cluster,
        "writable": writable,
    },
    explain="EXPLAIN FORMAT=TRADITIONAL ",
    read_plan=mysql_plan,
    idle=("wait_timeout", 1),
    lock_wait="innodb_lock_wait_timeout",
    questions={
        "account": account,
        "collations": collations,
        "connections": connections,
        "history metric": history_metric,
        "history status": history_status,
        "lower limits of connections": lower_limits,
        "most connections": most_connections,
        "oldest transactions": oldest_transactions,
        "time zone": knows_zone,
        "try rights": try_rights,
        "unused indexes": unused_indexes,
        "use index": use_index,
        "wait as before": wait_as_before,
        "wait briefly": wait_briefly,
        "whole size": whole_size,
    },
)
