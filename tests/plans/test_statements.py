"""Each statement of the queue reads what it needs and no more, whatever else is in the table.

The large table is the promise; in the small one optimisers like to read everything, and to lock what they read.
PostgreSQL takes pages that held a handful of rows when it last looked for such still, however full they are now: it
looked after almost everything was archived, and then a backlog came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.conf import settings
from django.db import connection
from pytest_django import DjangoDbBlocker

from django_dbqueue.databases import Claim, server_of
from django_dbqueue.databases.statement import MAX_IDS
from django_dbqueue.lifecycle import archive_sql
from django_dbqueue.models import Message
from django_dbqueue.statements import moves_sql
from django_dbqueue.worker import idle_poll_sql
from django_dbqueue.worker.idle_poll_sql import EXPIRED, READY
from tests.plans import crowd
from tests.plans.plan import CLAIM, LIVE_KEY, PRIMARY, cost_of, plan_of
from tests.plans.statements import BY_ID, BY_KEY, PROBES, RANGES, Table, claim_from, table_of_crowd, take_ids

pytestmark = pytest.mark.django_db
TINY = {"done": 10, "delayed": 0, "stuck": 10, "dead": 2, "backlog": 0, "queues": 0}
SMALL = {"done": 40, "delayed": 20, "stuck": 15, "dead": 5, "backlog": 20, "queues": 5}
LARGE = {
    "done": 1_000_000,
    "delayed": 20_000,
    "stuck": 2_000,
    "dead": 5_000,
    "backlog": 100_000,
    "queues": 1_000,
}
BELIEFS = ["stale", "fresh", *(["thin"] if settings.TEST_DATABASE == "postgres" else [])]
MOST = {"mysql": 100, "postgresql": 150, "sqlite": 4_000}
"""What reading ten rows may cost. A claim touches each twice: where it is found, and where it is taken."""


@dataclass(slots=True)
class Rows:
    sizes: dict[str, int]
    are_there: bool = False

    def come_behind_the_servers_back(self) -> None:
        crowd.empty()
        if self.sizes is LARGE:
            crowd.fill(**SMALL)
        crowd.gather_statistics()  # what the server still believes when the rows have come
        crowd.forget_statistics()
        crowd.fill(**self.sizes)
        self.are_there = True

    def are_believed(self, belief: str) -> None:
        if belief == "stale" or not self.are_there:  # in random order "fresh" may have been first
            self.come_behind_the_servers_back()
        if belief == "fresh":
            crowd.gather_statistics()
        if belief == "thin":
            crowd.thin_out_statistics()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(TINY, id="tiny"),
        pytest.param(SMALL, id="small"),
        pytest.param(LARGE, id="million", marks=crowd.OF_A_MILLION),
    ],
)
def rows(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Rows]:
    """Committed once for all tests; each test rolls back what it does to them."""
    with django_db_blocker.unblock():
        crowd.let_innodb_gather_statistics(by_itself=False)
    yield Rows(request.param)
    with django_db_blocker.unblock():
        crowd.empty()
        crowd.forget_statistics()
        crowd.let_innodb_gather_statistics(by_itself=True)
        connection.close()


@pytest.fixture(scope="module", params=BELIEFS)
def table(request: pytest.FixtureRequest, rows: Rows, django_db_blocker: DjangoDbBlocker) -> Table:
    with django_db_blocker.unblock():
        rows.are_believed(request.param)
        return table_of_crowd(is_large=rows.sizes is LARGE)


def plan_matters(table: Table) -> bool:
    """A small table read whole costs nothing, but on MySQL and MariaDB, which lock what they read."""
    return table.is_large or connection.vendor == "mysql"


@pytest.fixture
def shy_of_scans(db: None, table: Table) -> None:
    """PostgreSQL reads a table of two pages whole and is right, for it locks only what it returns.

    There the plan says what the index is able to, and in the large table what the planner does.
    """
    settings = ["enable_seqscan", "enable_bitmapscan", "enable_sort"]
    if connection.vendor != "postgresql" or table.is_large:
        return
    with connection.cursor() as cursor:
        cursor.execute("; ".join(f"SET LOCAL {name} = off" for name in settings))


def most_of_a_lookup(table: Table) -> float:
    """A lookup may read a small table whole where it locks only what it returns."""
    return max(MOST[connection.vendor], 0 if plan_matters(table) else whole(table))


def whole(table: Table) -> float:
    """What reading all of a small table may cost: each row, and the page that has it."""
    return 0 if table.is_large else 2 * Message.objects.count()


@pytest.mark.usefixtures("shy_of_scans")
@pytest.mark.parametrize("name", RANGES)
def test_a_range_of_the_claim_index_is_read_in_its_own_order(table: Table, name: str) -> None:
    statement = RANGES[name](server_of(connection), table)
    plan = plan_of(connection, statement)
    assert CLAIM in plan.indexes, plan.text
    assert set(plan.indexes) <= {CLAIM, PRIMARY}, plan.text
    assert not plan.sorts, plan.text
    if plan.conditions:
        for column in ("queue", "status", "priority", "available_at"):
            assert column in plan.conditions, plan.text
    assert cost_of(connection, statement) <= MOST[connection.vendor]


@pytest.mark.usefixtures("shy_of_scans")
@pytest.mark.parametrize("name", PROBES)
def test_a_probe_reads_an_entry_or_two(table: Table, name: str) -> None:
    statement = PROBES[name](server_of(connection), table)
    plan = plan_of(connection, statement)
    assert plan.indexes == (CLAIM,), plan.text
    assert not plan.sorts, plan.text
    assert cost_of(connection, statement) <= MOST[connection.vendor] / 10


@pytest.mark.usefixtures("shy_of_scans")
@pytest.mark.parametrize("known", [[9, 0], [0], [20, 9, 5, 0, -7]])
@pytest.mark.parametrize("fact", [READY, EXPIRED])
def test_the_question_of_an_idle_worker_reads_an_entry_or_two_for_each_stretch(
    table: Table, fact: str, known: list[int]
) -> None:
    server = server_of(connection)
    facts = list(idle_poll_sql.due(server, fact, crowd.QUEUE, known))
    assert len(facts) == 2 * len(known) + 1
    statement = idle_poll_sql.together(facts)
    plan = plan_of(connection, statement)
    assert set(plan.indexes) == {CLAIM}, plan.text
    assert not plan.sorts, plan.text
    assert cost_of(connection, statement) <= len(facts) * MOST[connection.vendor] / 10


@pytest.mark.usefixtures("shy_of_scans")
@pytest.mark.parametrize("name", [*BY_ID, *BY_KEY])
def test_rows_named_by_id_or_key_are_found_by_it(table: Table, name: str) -> None:
    statement = (BY_ID | BY_KEY)[name](server_of(connection), table)
    plan = plan_of(connection, statement)
    if plan_matters(table):
        assert set(plan.indexes) == {PRIMARY if name in BY_ID else LIVE_KEY}, plan.text
    assert cost_of(connection, statement) <= most_of_a_lookup(table)


def test_a_whole_batch_is_found_by_the_primary_key(table: Table) -> None:
    server = server_of(connection)
    claims = [Claim(claim.id, place + 1) for place, claim in enumerate(table.running)]
    ids = [claim.id for claim in claims]
    for statement in (
        moves_sql.settle(server, moves_sql.ack(server), claims),
        moves_sql.settle(server, moves_sql.ack(server), table.running),
        take_ids(server, ids),
        moves_sql.settle(server, moves_sql.remove(), claims),
        archive_sql.lock_finished(server, ids),
        archive_sql.lock_dead(server, ids, 60.0),
        archive_sql.copy_to_archive(server, ids),
        server.delete_each(server.message, ("id",), [(each,) for each in ids]),
    ):
        plan = plan_of(connection, statement)
        if plan_matters(table):
            assert set(plan.indexes) == {PRIMARY}, plan.text


@pytest.mark.usefixtures("shy_of_scans")
def test_a_whole_batch_is_claimed_by_the_claim_index(table: Table) -> None:
    for mark in (None, table.mark_in_backlog):
        plan = plan_of(connection, claim_from(server_of(connection), crowd.BACKLOG, MAX_IDS, mark))
        assert CLAIM in plan.indexes, plan.text
        assert set(plan.indexes) <= {CLAIM, PRIMARY}, plan.text
        assert not plan.sorts, plan.text


def test_what_a_worker_holds_is_found_among_the_running_rows(table: Table) -> None:
    statement = moves_sql.owned(server_of(connection), [crowd.QUEUE, "nothing"], crowd.WORKER)
    plan = plan_of(connection, statement)
    if plan_matters(table):
        assert set(plan.indexes) == {CLAIM}, plan.text
