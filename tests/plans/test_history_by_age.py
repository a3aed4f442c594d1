"""What deletes the history by age reads a window of it with each statement, however many rows are in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.databases import server_of
from django_dbqueue.history.age_walk import AgeWalk
from django_dbqueue.models import ArchivedMessage, HistoryAge
from tests.history.aging import DAY, SESSION
from tests.plans import crowd
from tests.plans.plan import cost_of
from tests.plans.test_skipping import statements

pytestmark = pytest.mark.django_db(transaction=True)
FEW, MILLION = 60_000, 1_000_000
DAYS = 40
"""Over which the rows have come; every tenth is of a queue whose rows are kept for ever."""
MOST = {"mysql": 20_000, "postgresql": 20_000, "sqlite": 20_000 * 20}
"""Entries or pages; SQLite takes twenty steps for an entry of a table or an index."""


@pytest.fixture(
    params=[pytest.param(FEW, id="few"), pytest.param(MILLION, id="million", marks=crowd.OF_A_MILLION)],
)
def rows(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[int]:
    number: int = request.param
    if connection.vendor == "postgresql":
        _housekeep("ALTER TABLE {table} SET (autovacuum_enabled = false)")  # it may come while the rows do
        _housekeep("DELETE FROM pg_statistic WHERE starelid = '{table}'::regclass")  # of rows of other tests
    fill(number)
    yield number
    if connection.vendor == "postgresql":
        _housekeep("ALTER TABLE {table} RESET (autovacuum_enabled)")
    with connection.cursor() as cursor:
        verb = "DELETE FROM" if connection.vendor == "sqlite" else "TRUNCATE TABLE"
        cursor.execute(f"{verb} {ArchivedMessage._meta.db_table}")
    crowd.forget_statistics()


def _housekeep(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql.format(table=ArchivedMessage._meta.db_table))


def fill(number: int) -> None:
    """As if archivers had worked for weeks; the server doesn't know yet how many rows there are."""
    server = server_of(connection)
    moment = server.plus(server.now, f"(n - {number}) * {DAYS * DAY / number!r}")
    crowd.gather_statistics(ArchivedMessage)
    with connection.cursor() as cursor:
        for first in range(0, number, crowd.AT_ONCE):
            cursor.execute(
                f"INSERT INTO {server.archived} (message_id, outcome, queue, due_at, priority, read_count, crashes, "
                "body, content_type, created_at, finished_at, archived_at) "
                "WITH RECURSIVE k (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k WHERE i < 999), "
                f"numbers (n) AS (SELECT {first} + a.i * 1000 + b.i FROM k AS a CROSS JOIN k AS b WHERE a.i < 100) "
                "SELECT n, 'done', CASE WHEN MOD(n, 10) = 0 THEN 'kept' ELSE 'tests' END, "
                f"{moment}, 0, 1, 0, '1', 'json', {moment}, {moment}, {moment} "
                f"FROM numbers WHERE n < {number} ORDER BY numbers.n",
                (),
            )


def test_no_statement_reads_more_than_a_window(rows: int) -> None:
    walker, costs = AgeWalk(SESSION), dict[str, int]()
    for retentions in ((7 * DAY, {"kept": None}), (30 * DAY, {})):
        with CaptureQueriesContext(connection) as queries:
            assert walker.turn(*retentions)
        sent = [each for each in statements(queries) if each.sql.startswith(("SELECT", "DELETE", "UPDATE"))]
        costs |= {each.sql[:300]: cost_of(connection, each, everywhere=True) for each in sent}
    assert [sql for sql in costs if sql.startswith("DELETE")]
    assert {sql: cost for sql, cost in costs.items() if cost > MOST[connection.vendor]} == {}
    assert HistoryAge.objects.get().gone_to < ArchivedMessage.objects.latest("id").pk
