"""What running a statement has cost, in one form for all; how a server says that it will run it, the doctor reads."""

from __future__ import annotations

import json
from functools import partial

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.databases import Statement
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.databases.query_plans import NO_INDEX, PRIMARY, QueryPlan, walk
from django_dbqueue.doctor.claim_checks import plan_of
from django_dbqueue.sessions.django_session import session_of

__all__ = ["CLAIM", "LIVE_KEY", "NO_INDEX", "PRIMARY", "QueryPlan", "cost_of", "plan_of"]
CLAIM, LIVE_KEY = Index.CLAIM, Index.LIVE_KEY


def cost_of(connection: BaseDatabaseWrapper, statement: Statement, *, everywhere: bool = False) -> int:
    """Entries and rows read (MySQL, MariaDB), pages scanned (PostgreSQL), steps of the machine (SQLite).

    ``everywhere``: on PostgreSQL not of messages only.
    """
    pages = partial(_pages, everywhere=everywhere)
    ask = {"mysql": _reads, "postgresql": pages, "sqlite": _steps}[connection.vendor]
    with transaction.atomic():
        cost = ask(connection, statement)
        transaction.set_rollback(True)
    return cost


def _reads(connection: BaseDatabaseWrapper, statement: Statement) -> int:
    with connection.cursor() as cursor:
        # Whoever first opens a table after ANALYZE reads what MariaDB knows of its columns: 43 entries for two tables
        cursor.execute(f"EXPLAIN {statement.sql}", statement.params)
        cursor.fetchall()
    first, second = _handler_reads(connection), _handler_reads(connection)
    with connection.cursor() as cursor:
        cursor.execute(statement.sql, statement.params)
        count = cursor.rowcount
    third = _handler_reads(connection)
    if statement.sql.startswith("DELETE"):
        _insert_again(connection, count)
    return (third - second) - (second - first)  # asking reads something, too


def _insert_again(connection: BaseDatabaseWrapper, count: int) -> None:
    """Insert as many messages as a DELETE took, or MySQL would believe that it took them for good.

    Its optimizer believes the row count that InnoDB keeps in memory. A DELETE lowers it, an INSERT raises it, and a
    rollback takes back neither. At a count of 1 the claim index is read whole: that costs less than any range of it.
    """
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {Tables.message} (queue, status, priority, available_at, body) "
            "VALUES (%s, 'n', 0, UTC_TIMESTAMP(6), '1')",
            [("deleted",)] * count,
        )


def _handler_reads(connection: BaseDatabaseWrapper) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%%'", ())
        return sum(int(value) for _, value in cursor.fetchall())


def _pages(connection: BaseDatabaseWrapper, statement: Statement, *, everywhere: bool) -> int:
    with connection.cursor() as cursor, session_of(connection.alias).held_to_order(cursor, statement):
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.sql}", statement.params)
        plan = cursor.fetchone()[0]
    scans = [
        node
        for node in walk((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
        if node["Node Type"] != "ModifyTable"
        and (node.get("Relation Name") == Tables.message or (everywhere and "Relation Name" in node))
    ]
    return sum(
        node["Shared Hit Blocks"] + node["Shared Read Blocks"] + node.get("Rows Removed by Filter", 0) for node in scans
    )


def _steps(connection: BaseDatabaseWrapper, statement: Statement) -> int:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.connection.set_progress_handler(count, 1)
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.params)
            if cursor.description:
                cursor.fetchall()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return steps
