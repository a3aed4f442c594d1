"""The backlog of a stream costs what it counts, up to its cap, whatever else is in the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.databases import server_of
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statuses import NEW
from django_dbqueue.streams.backlog import Backlog, count_backlog
from tests.plans import crowd
from tests.plans.plan import CLAIM, cost_of, plan_of
from tests.plans.test_skipping import CROWD, statements

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

pytestmark = pytest.mark.django_db
WAITING = "waiting"
MOST = 1_000
COST = {"mysql": 2 * MOST + 50, "postgresql": 100, "sqlite": 20 * MOST}
"""Entries read, each twice; pages; steps of the machine. To count a range to its end would cost many times as much."""


@pytest.fixture(scope="module")
def rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with crowd.committed(django_db_blocker, CROWD):
        with django_db_blocker.unblock():
            parked = server_of(connection).parked
            crowd.insert_messages(connection, 25_000, f"'{WAITING}'", NEW, 0, None, available=parked)
            crowd.insert_messages(connection, 600, f"'{WAITING}'", NEW, 5, "-60")
            crowd.gather_statistics()
        yield


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        pytest.param(crowd.QUEUE, Backlog(crowd.READY, 0, is_capped=False), id="few"),
        pytest.param(crowd.BACKLOG, Backlog(MOST, 0, is_capped=True), id="due"),
        pytest.param(WAITING, Backlog(600, MOST - 600, is_capped=True), id="waiting"),
        pytest.param("nothing", Backlog(0, 0, is_capped=False), id="none"),
    ],
)
def test_a_backlog_is_counted_on_the_claim_index_and_no_further_than_its_cap(queue: str, expected: Backlog) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert count_backlog(DjangoSession("default"), queue, MOST) == expected
    found = statements(queries)
    for statement in found:
        plan = plan_of(connection, statement)
        assert set(plan.indexes) == {CLAIM}, plan.text
        assert not plan.sorts, plan.text
    assert sum(cost_of(connection, statement) for statement in found) <= COST[connection.vendor]
