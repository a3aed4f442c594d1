"""Looking at a queue reads what it shows, whatever else is in the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.databases import Statement
from django_dbqueue.models import Message
from django_dbqueue.states.table import STATES
from tests.plans import crowd
from tests.plans.plan import CLAIM, LIVE_KEY, NO_INDEX, cost_of, plan_of
from tests.plans.test_statements import LARGE, MOST, SMALL

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

pytestmark = pytest.mark.django_db
LEDGER = "django_dbqueue_streamclaim"
"""A small table, which a look asks for the streams that hold what it shows; optimisers may scan it."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(SMALL, id="small"), pytest.param(LARGE, id="million", marks=crowd.OF_A_MILLION)],
)
def is_large(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[bool]:
    with django_db_blocker.unblock():
        crowd.empty()
        crowd.fill(**request.param)
        crowd.gather_statistics()
    yield request.param is LARGE
    with django_db_blocker.unblock():
        crowd.empty()
        crowd.forget_statistics()
        connection.close()


def check(queries: CaptureQueriesContext, index: str, *, is_large: bool) -> None:
    assert len(queries) < 10
    for query in queries:
        statement = Statement(query["sql"].replace("%", "%%"), ())
        assert cost_of(connection, statement) <= MOST[connection.vendor], query["sql"]
        plan = plan_of(connection, statement)
        if is_large and LEDGER not in query["sql"]:  # optimisers like to scan what is small
            assert index in plan.indexes, plan.text
            assert NO_INDEX not in plan.indexes, plan.text
            assert not plan.sorts, plan.text


@pytest.mark.parametrize("state", STATES)
def test_a_peek_at_a_state_reads_the_claim_index_in_its_own_order(state: str, *, is_large: bool) -> None:
    for queue in (crowd.QUEUE, crowd.BACKLOG, "nothing"):
        with CaptureQueriesContext(connection) as queries:
            Message.objects.peek(queue, state=state, limit=10)
        check(queries, CLAIM, is_large=is_large)


def test_a_peek_at_a_key_reads_the_row_that_has_it(*, is_large: bool) -> None:
    with CaptureQueriesContext(connection) as queries:
        found = Message.objects.get_by_key(crowd.QUEUE, crowd.KEY)
    assert found is not None
    assert found.payload == 0
    check(queries, LIVE_KEY, is_large=is_large)
