"""A server that believes old statistics must not be led into reading the claim index from end to end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.databases import server_of
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.ranges_in_use import (
    explained,
    index_ranges,
    queue_names,
    queues_in_use,
    ranges_in_use,
    skips,
)
from tests.plans import crowd
from tests.plans.plan import cost_of
from tests.plans.test_skipping import BUDGET, CROWD, statements

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def unknown_crowd(transactional_db: None) -> Iterator[None]:
    """A crowd that came in behind the server's back: it still believes that hardly two rows share a queue."""
    crowd.let_innodb_gather_statistics(by_itself=False)
    crowd.fill(done=0, delayed=0, stuck=0, dead=0, backlog=0, queues=50)
    crowd.gather_statistics()
    crowd.fill(**(CROWD | {"queues": 0}))
    yield
    crowd.empty()
    crowd.let_innodb_gather_statistics(by_itself=True)
    crowd.gather_statistics()


@pytest.mark.usefixtures("unknown_crowd")
def test_queues_and_ranges_are_found_all_the_same() -> None:
    server = server_of(connection)
    for statement in (queue_names(server), index_ranges(server)):
        plan = explained(statement)
        assert skips(DjangoSession("default").fetch(plan)) == (cost_of(connection, statement) <= BUDGET)
    with CaptureQueriesContext(connection) as queries:
        assert len(queues_in_use(DjangoSession("default"))) == 52
        assert len({each.queue for each in ranges_in_use(DjangoSession("default"))}) == 52
    assert max(cost_of(connection, statement) for statement in statements(queries)) <= BUDGET
