"""MySQL and MariaDB: whether a commit is a commit, a value is kept whole, and a lost connection is noticed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from django.core import checks
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue import conf
from django_dbqueue.checks.answers import answers, check_isolation
from django_dbqueue.checks.text_columns import check_columns
from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.databases.server_facts import mysql_autocommit, mysql_engines, mysql_variables
from django_dbqueue.envelope import INSERT_SIZE

VARIABLES: Final = (
    "binlog_format",
    "character_set_client",
    "group_replication_single_primary_mode",
    "innodb_flush_log_at_trx_commit",
    "log_bin",
    "max_allowed_packet",
    "sql_mode",
    "sync_binlog",
    "transaction_isolation",
    "tx_isolation",
    "wsrep_on",
)
TABLES: Final = (Tables.message, Tables.archived, Tables.mutex)
_STRICT: Final = {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL"}
_OVERHEAD: Final = 64 * 1024
"""Bytes of an INSERT besides its body: key, headers and the statement itself."""


def check(connection: BaseDatabaseWrapper) -> list[checks.CheckMessage]:
    """Check the server, the session and the tables that a connection leads to."""
    alias = connection.alias
    variables = answers(connection, mysql_variables(VARIABLES))
    return [
        *check_skip_locked(connection),
        *check_engines(connection, TABLES),
        *check_strict(alias, variables),
        *check_binary_log(alias, variables),
        *check_durability(alias, variables),
        *check_autocommit(connection),
        *check_isolation(alias, isolation_of(variables)),
        *check_timeouts(connection),
        *check_packet(alias, variables),
        *check_characters(alias, variables),
        *check_columns(connection),
        *check_writers(alias, variables),
    ]


def isolation_of(variables: Mapping[str, str]) -> str:
    """Return the session's isolation level, under whichever name the server has for it."""
    return variables.get("transaction_isolation") or variables.get("tx_isolation", "READ-COMMITTED")


def check_skip_locked(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Check for SKIP LOCKED: without it claimers wait for each other, or deadlock."""
    if not connection.features.has_select_for_update_skip_locked:
        yield checks.Error(
            f"The server of the database {connection.alias!r} doesn't support SELECT … FOR UPDATE SKIP LOCKED, with "
            "which each message goes to one claimer and no claimer waits for another.",
            hint="Use MySQL 8.0.11 or newer, or MariaDB 10.6 or newer.",
            id="dbqueue.E012",
        )


def check_engines(connection: BaseDatabaseWrapper, tables: Sequence[str]) -> Iterator[checks.CheckMessage]:
    """Check the tables' engines. Missing tables are no error: ``migrate`` runs these checks before creating them."""
    for table, engine in answers(connection, mysql_engines(tables)).items():
        if engine.lower() != "innodb":
            yield checks.Error(
                f"The table {table} in the database {connection.alias!r} uses {engine}, which has no transactions "
                "and no row locks: messages can be lost, or delivered to two workers at once.",
                hint=f"Stop the workers and run: ALTER TABLE {table} ENGINE=InnoDB; and set the server's "
                "default_storage_engine to InnoDB.",
                id="dbqueue.E013",
            )


def check_strict(alias: str, variables: Mapping[str, str]) -> Iterator[checks.CheckMessage]:
    """Check for strict mode: a session without it stores what fits, and says nothing."""
    if _STRICT.isdisjoint(variables.get("sql_mode", "").upper().split(",")):
        yield checks.Error(
            f"Sessions of the database {alias!r} are not strict (sql_mode is {variables.get('sql_mode', '')!r}): the "
            "server truncates values that don't fit instead of refusing them.",
            hint="Add STRICT_TRANS_TABLES to the server's sql_mode, or in OPTIONS: "
            "'init_command': \"SET sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')\".",
            id="dbqueue.E014",
        )


def check_binary_log(alias: str, variables: Mapping[str, str]) -> Iterator[checks.CheckMessage]:
    """Refuse STATEMENT only: with MIXED, InnoDB logs rows of READ COMMITTED transactions (the queue's are)."""
    logs = variables.get("log_bin", "OFF").upper() in {"ON", "1"}
    if logs and variables.get("binlog_format", "ROW").upper() == "STATEMENT":
        yield checks.Error(
            f"The server of the database {alias!r} writes statements to its binary log. InnoDB then refuses every "
            "write of a READ COMMITTED transaction (error 1665), and a replica would pick different rows.",
            hint="Set the server's binlog_format to ROW (MIXED works too).",
            id="dbqueue.E015",
        )


def check_durability(alias: str, variables: Mapping[str, str]) -> Iterator[checks.CheckMessage]:
    """Check durability: promise P1 holds only as far as the server keeps what it has committed."""
    weak = []
    if variables.get("innodb_flush_log_at_trx_commit", "1") != "1":
        weak.append(f"innodb_flush_log_at_trx_commit is {variables['innodb_flush_log_at_trx_commit']}")
    if variables.get("log_bin", "OFF").upper() in {"ON", "1"} and variables.get("sync_binlog", "1") != "1":
        weak.append(f"sync_binlog is {variables['sync_binlog']}")
    if weak:
        yield checks.Warning(
            f"The server of the database {alias!r} confirms a commit before it is on disk ({', '.join(weak)}): if "
            "the machine crashes, enqueued messages can be lost, and acknowledged ones delivered again.",
            hint=(
                "Set innodb_flush_log_at_trx_commit = 1 and sync_binlog = 1, or accept the risk and silence this check."
            ),
            id="dbqueue.W010",
        )


def check_autocommit(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Ask the server about autocommit, because Django and the driver only report what they believe."""
    said = answers(connection, mysql_autocommit())
    if connection.get_autocommit() and said["session"] != "1":
        yield checks.Error(
            f"Sessions of the database {connection.alias!r} have autocommit off on the server, though Django says "
            "that it is on: a message enqueued outside atomic() is lost when its session ends.",
            hint="Find what switches it off after connecting (such as a receiver of connection_created), and remove "
            "it.",
            id="dbqueue.E017",
        )
    elif said["default"] != "1":
        yield checks.Error(
            f"Sessions of the server of the database {connection.alias!r} start with autocommit off. Django and the "
            "pipeline switch it on in their own; any other program that calls the routines loses what it doesn't "
            "commit, although each call succeeded.",
            hint="Set the server's autocommit to 1 (SET GLOBAL autocommit = 1, and in its option file); or, if every "
            "such program commits, silence this check.",
            id="dbqueue.E017",
        )


def check_timeouts(connection: BaseDatabaseWrapper) -> Iterator[checks.CheckMessage]:
    """Check for a read timeout: by default, the driver waits forever."""
    if not connection.settings_dict.get("OPTIONS", {}).get("read_timeout"):
        yield checks.Warning(
            f"OPTIONS of the database {connection.alias!r} has no read_timeout: if a server or a firewall vanishes "
            "without closing the connection, a worker waits for an answer forever.",
            hint="Set 'connect_timeout': 10, 'read_timeout': 120 and 'write_timeout': 120, in seconds; "
            "read_timeout longer than your longest statement and innodb_lock_wait_timeout.",
            id="dbqueue.W012",
        )


def check_packet(alias: str, variables: Mapping[str, str]) -> Iterator[checks.CheckMessage]:
    """Check the packet size: escaping may double a body, and also the rows that are sent together."""
    packet = variables.get("max_allowed_packet", "")
    try:
        limit = int(conf.get("MAX_PAYLOAD_BYTES"))
    except (AttributeError, TypeError, ValueError):
        return  # the check of the settings reports it
    if not packet.isdigit():
        return
    needed, together = 2 * limit + _OVERHEAD, 2 * INSERT_SIZE + _OVERHEAD
    if int(packet) < needed:
        yield checks.Warning(
            f"DBQUEUE['MAX_PAYLOAD_BYTES'] allows {limit:,} bytes, which may take {needed:,} in a statement, but the "
            f"server of the database {alias!r} accepts packets of up to {int(packet):,} (max_allowed_packet): "
            "enqueue of a large payload fails with what looks like a network error.",
            hint=f"Set the server's max_allowed_packet to {max(needed, together):,} or more, or MAX_PAYLOAD_BYTES to "
            f"{max((int(packet) - _OVERHEAD) // 2, 1):,} or less.",
            id="dbqueue.W013",
        )
    elif int(packet) < together:
        yield checks.Warning(
            f"enqueue_many() sends statements of up to {together:,} bytes, but the server of the database {alias!r} "
            f"accepts packets of up to {int(packet):,} (max_allowed_packet): many large payloads at once fail with "
            "what looks like a network error.",
            hint=f"Set the server's max_allowed_packet to {together:,} or more.",
            id="dbqueue.W013",
        )


def check_characters(alias: str, variables: Mapping[str, str]) -> Iterator[checks.CheckMessage]:
    """Check the character set: the columns are utf8mb4, so the connection must be, too."""
    charset = variables.get("character_set_client", "utf8mb4")
    if charset != "utf8mb4":
        yield checks.Warning(
            f"Sessions of the database {alias!r} use {charset}, which lacks some characters (such as emoji): "
            "payloads that have them fail at enqueue.",
            hint="Set 'charset': 'utf8mb4' in OPTIONS, and set no other in init_command.",
            id="dbqueue.W016",
        )


def check_writers(alias: str, variables: Mapping[str, str]) -> Iterator[checks.CheckMessage]:
    """Warn of several writers: row locks end at the node."""
    galera = variables.get("wsrep_on", "OFF").upper() in {"ON", "1"}
    group = variables.get("group_replication_single_primary_mode", "ON").upper() in {"OFF", "0"}
    if galera or group:
        yield checks.Warning(
            f"The server of the database {alias!r} belongs to a cluster "
            f"({'Galera' if galera else 'Group Replication'}) that may have several writers. Row locks don't reach "
            "beyond a node, so two claimers on two nodes can claim the same message, and one of them fails at commit.",
            hint="Send all statements of the queue to one node (the proxy's writer), then silence this check.",
            id="dbqueue.W017",
        )
