"""The end of a message of a flow costs a few index entries, however many wait, and whatever the server believes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from django_dbqueue.databases import server_of
from django_dbqueue.databases.statement import Statement
from django_dbqueue.lifecycle import flows_sql
from django_dbqueue.lifecycle.flows_sql import WHEN_DONE
from django_dbqueue.models import Edge
from tests.plans import crowd
from tests.plans.plan import cost_of

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker


pytestmark = pytest.mark.django_db
CHILDREN, LAST = 20_000, 1_000_000
"""Children, with the ids from 1 on, and the message that waits for all of them."""
OTHERS = 500
"""Messages of other flows that wait for one each."""
ENDED = 100
MOST = {"mysql": 4, "postgresql": 6, "sqlite": 60}
"""What one child may cost: entries and rows read, pages, steps of the machine."""


@pytest.fixture(scope="module", params=["stale", "fresh"])
def edges(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[list[int]]:
    """Some of the children."""
    with django_db_blocker.unblock():
        Edge.objects.all().delete()
        crowd.gather_statistics(Edge)
        crowd.forget_statistics()
        pairs = [(LAST, number) for number in range(CHILDREN + 1)]
        for other in range(LAST + 1, LAST + 1 + OTHERS):
            pairs += [(other, 0), (other, 2 * other)]
        Edge.objects.bulk_create(
            [Edge(downstream=later, upstream=earlier, needs=WHEN_DONE) for later, earlier in pairs], batch_size=5_000
        )
        if request.param == "fresh":
            crowd.gather_statistics(Edge)
    yield list(range(CHILDREN // 2, CHILDREN // 2 + ENDED))
    with django_db_blocker.unblock():
        Edge.objects.all().delete()
        crowd.forget_statistics()
        connection.close()


def statements(children: list[int]) -> dict[str, Statement]:
    return {
        "who waits for them": flows_sql.waiters_for(server_of(connection), children),
        "who waits for what": flows_sql.needs_of_waiters_for(server_of(connection), children),
        "they have ended": flows_sql.forget_edges_from(server_of(connection), children),
        "they have died": flows_sql.forget_finished_edges_from(server_of(connection), children),
        "which gates are open": flows_sql.open_gates(server_of(connection), [LAST, LAST + 1]),
        "lock the gates": flows_sql.lock_gates(server_of(connection), [LAST, LAST + 1]),
        "through the gates": flows_sql.forget_gates(server_of(connection), [LAST, LAST + 1]),
    }


@pytest.mark.parametrize("what", list(statements([1])))
def test_an_end_costs_the_same_however_many_wait(edges: list[int], what: str) -> None:
    assert cost_of(connection, statements(edges)[what], everywhere=True) <= ENDED * MOST[connection.vendor]


@pytest.mark.skipif(connection.vendor == "postgresql", reason="it takes no hints, and a scan waits for no locks there")
def test_so_do_ends_that_are_in_no_range(edges: list[int]) -> None:
    apart = [child + place for place, child in enumerate(edges)]
    for statement in (
        flows_sql.waiters_for(server_of(connection), apart),
        flows_sql.forget_edges_from(server_of(connection), apart),
    ):
        assert cost_of(connection, statement, everywhere=True) <= ENDED * (MOST[connection.vendor] + 2)
