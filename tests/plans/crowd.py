"""A crowded table, built by SQL in seconds: a few ready rows among all that must not be read on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from django_dbqueue import Envelope
from django_dbqueue.databases import Server, server_of
from django_dbqueue.keys import key_hash
from django_dbqueue.models import Message
from django_dbqueue.statuses import DONE, NEW, RUNNING
from tests.patience import patience

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker


QUEUE = "hot"
BACKLOG = "backlog"
READY = 10
KEY = "k0"
"""Of a ready row, and of every done one before it."""
WORKER = 77
TOKEN = 99
AT_ONCE = 100_000
"""Rows of one INSERT."""
OF_A_MILLION = [pytest.mark.slow, pytest.mark.timeout(patience(450))]
"""Marks of a test that fills a table of a million rows: seconds on an idle machine, minutes on a busy disk."""


def fill(*, done: int, delayed: int, stuck: int, dead: int, backlog: int, queues: int) -> None:
    """Done and dead ones; delayed at a higher priority; running beyond their lease, and within it; ready."""
    server = server_of(connection)
    insert = partial(insert_messages, connection)
    day, hash_of_key = "-86400 + n * 0.0001", f"'{key_hash(QUEUE, KEY)}'"
    run = f"{TOKEN}, {WORKER}, {server.now}"
    insert(done, f"'{QUEUE}'", DONE, 0, day, key=hash_of_key, finished=server.now)
    insert(dead, f"'{QUEUE}'", NEW, 0, None, finished=server.now)
    insert(delayed, f"'{QUEUE}'", NEW, 9, "3600 + n * 0.01")
    insert(stuck, f"'{QUEUE}'", RUNNING, 0, "-3600 + n * 0.001", claim=run)
    insert(stuck, f"'{QUEUE}'", RUNNING, 0, "3600 + n * 0.001", claim=run)
    insert(stuck, f"'{QUEUE}'", RUNNING, 9, "3600 + n * 0.001", claim=run)
    insert(backlog, f"'{BACKLOG}'", NEW, 0, "-60")  # all due in one moment
    insert(queues, _name(server), NEW, 0, "-60")
    Message.objects.enqueue_many([Envelope(n, key=f"k{n}") for n in range(READY)], queue=QUEUE)


def empty() -> None:
    with connection.cursor() as cursor:
        verb = "DELETE FROM" if connection.vendor == "sqlite" else "TRUNCATE TABLE"
        cursor.execute(f"{verb} {Message._meta.db_table}")


def gather_statistics(*models: type[Model], using: str = "default") -> None:
    """As the server's own housekeeping does after a while; for messages, if no table is named."""
    how = {"mysql": "ANALYZE TABLE {}", "postgresql": "VACUUM ANALYZE {}", "sqlite": "ANALYZE {}"}
    with connections[using].cursor() as cursor:
        for model in models or (Message,):
            cursor.execute(how[connections[using].vendor].format(model._meta.db_table))
            if cursor.description:
                cursor.fetchall()


def let_innodb_gather_statistics(*, by_itself: bool) -> None:
    """It does so ten seconds after it last did; what a test finds believed is not to hang on how long others took."""
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            value = "DEFAULT" if by_itself else "0"
            cursor.execute(f"ALTER TABLE {Message._meta.db_table} STATS_AUTO_RECALC = {value}")


def thin_out_statistics() -> None:
    """As PostgreSQL's are where the same pages held a handful of rows when it last looked."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pg_class SET reltuples = 5 WHERE oid = %s::regclass "
            "OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = %s::regclass)",
            [Message._meta.db_table] * 2,
        )


@contextmanager
def committed(blocker: DjangoDbBlocker, sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    """Commit a crowd for all tests of a module, with statistics that are true; take it away after them."""
    with blocker.unblock():
        empty()
        fill(**sizes)
        gather_statistics()
    yield sizes
    with blocker.unblock():
        empty()
        forget_statistics()
        connection.close()


def forget_statistics() -> None:
    """SQLite keeps what ANALYZE found for ever, and others are to plan without it."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS sqlite_stat1")
        connection.close()


def _name(server: Server) -> str:
    return "CONCAT('q', n)" if server.quote == "`" else "'q' || n"


def insert_messages(
    into: BaseDatabaseWrapper,
    count: int,
    queue: str,
    status: str,
    priority: int,
    seconds: str | None,
    *,
    key: str = "NULL",
    finished: str = "NULL",
    claim: str = "NULL, NULL, NULL",
    available: str | None = None,
) -> None:
    """Rows n = 0 … count − 1, in this order, ``seconds`` (SQL of n) from now; the other arguments are SQL, too.

    ``available`` says the moment instead.
    """
    server = server_of(into)
    available = available or ("NULL" if seconds is None else server.plus(server.now, seconds))
    with into.cursor() as cursor:
        if into.vendor == "mysql":
            cursor.execute("SET SESSION sql_log_bin = 0")
        for first in range(0, count, AT_ONCE):
            cursor.execute(
                f"INSERT INTO {server.message} (queue, status, priority, available_at, key_hash, finished_at, "
                "claim_token, worker_id, claimed_at, body) "
                "WITH RECURSIVE k (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k WHERE i < 999), "
                f"numbers (n) AS (SELECT {first} + a.i * 1000 + b.i FROM k AS a CROSS JOIN k AS b WHERE a.i < 100) "
                f"SELECT {queue}, '{status}', {priority}, {available}, {key}, {finished}, {claim}, '1' "
                f"FROM numbers WHERE n < {count} ORDER BY numbers.n",
                (),
            )
        if into.vendor == "mysql":
            cursor.execute("SET SESSION sql_log_bin = 1")
