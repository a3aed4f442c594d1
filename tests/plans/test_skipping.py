"""Finding what is in use, and counting it, costs by queues, priorities and the cap, whatever else is in the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.databases import Statement, server_of
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.depths import depths
from django_dbqueue.states.ranges_in_use import index_ranges, queue_names, queues_in_use, ranges_in_use
from tests.plans import crowd
from tests.plans.plan import CLAIM, NO_INDEX, cost_of, plan_of
from tests.plans.test_statements import LARGE, SMALL

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

pytestmark = pytest.mark.django_db
CROWD = {"done": 60_000, "delayed": 25_000, "stuck": 500, "dead": 1_000, "backlog": 25_000, "queues": 100}
BUDGET = 20_000
"""Entries that a statement of a page may read; a scan of this crowd reads more."""
EACH = {"mysql": 2, "postgresql": 12, "sqlite": 80}
"""What one answer of a skip scan may cost, in the units of ``cost_of``."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SMALL, id="small"),
        pytest.param(CROWD, id="crowd"),
        pytest.param(LARGE, id="million", marks=crowd.OF_A_MILLION),
    ],
)
def rows(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[dict[str, int]]:
    with crowd.committed(django_db_blocker, request.param) as rows:
        yield rows


def names(rows: dict[str, int]) -> list[str]:
    return sorted([crowd.BACKLOG, crowd.QUEUE, *(f"q{number}" for number in range(rows["queues"]))])


def statements(queries: CaptureQueriesContext) -> list[Statement]:
    sqls = [query["sql"] for query in queries if not query["sql"].startswith("EXPLAIN")]
    return [Statement(sql.replace("%", "%%"), ()) for sql in sqls]


def test_queues_and_ranges_are_found_by_skipping_over_their_rows(rows: dict[str, int]) -> None:
    assert queues_in_use(DjangoSession("default")) == names(rows)
    assert (
        len(ranges_in_use(DjangoSession("default"))) == len(names(rows)) + 4
    )  # of the hot one: n at 0 and 9, run at 0 and 9, y at 0
    if rows is SMALL:
        return  # optimisers like to read what is small
    server = server_of(connection)
    for statement, answers in (
        (queue_names(server), len(names(rows))),
        (index_ranges(server), 3 * len(names(rows)) + 3),
    ):
        assert cost_of(connection, statement) <= EACH[connection.vendor] * (answers + 10)


def test_queues_and_counts_take_few_statements_that_read_the_claim_index_up_to_the_cap(rows: dict[str, int]) -> None:
    with CaptureQueriesContext(connection) as queries:
        found = depths(
            DjangoSession("default"),
            queues_in_use(DjangoSession("default")),
            states=("ready", "running", "stuck", "dead"),
            cap=100,
        )
    assert sorted(found) == names(rows)
    assert found[crowd.QUEUE].counts["ready"] == crowd.READY
    assert found[crowd.BACKLOG].counts["ready"].more == (rows["backlog"] > 100)
    assert len(queries) < 9 + len(names(rows)) / 15
    for statement in statements(queries):
        finds = connection.vendor == "sqlite" and statement.sql.startswith("WITH RECURSIVE")  # by many small steps
        assert cost_of(connection, statement) <= (EACH["sqlite"] * (3 * len(names(rows)) + 13) if finds else BUDGET)
        if rows is not SMALL and ") AS counted" in statement.sql:
            plan = plan_of(connection, statement)
            assert set(plan.indexes) == {CLAIM}, plan.text
            assert NO_INDEX not in plan.indexes, plan.text


def test_a_high_cap_stays_within_the_budget(rows: dict[str, int]) -> None:
    with CaptureQueriesContext(connection) as queries:
        found = depths(DjangoSession("default"), [crowd.QUEUE, crowd.BACKLOG], states=("done", "ready"), cap=9_000)
    assert found[crowd.QUEUE].counts["done"] == min(rows["done"], 9_000)
    assert found[crowd.BACKLOG].counts["ready"].more == (rows["backlog"] > 9_000)
    if connection.vendor != "sqlite":  # whose cost is in steps of its machine
        assert max(cost_of(connection, statement) for statement in statements(queries)) <= BUDGET
