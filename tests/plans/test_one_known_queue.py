"""SQLite believes for ever what ANALYZE found, and with a single queue that was: a queue's name tells nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from django_dbqueue.databases import server_of
from django_dbqueue.states.ranges_in_use import unserved
from tests.factories import waiting
from tests.plans import crowd
from tests.plans.plan import cost_of
from tests.plans.test_skipping import EACH

pytestmark = pytest.mark.django_db(transaction=True)
QUEUES = 300


@pytest.fixture
def one_known_queue(transactional_db: None) -> Iterator[None]:
    for _ in range(QUEUES):
        waiting(queue="first")
    crowd.gather_statistics()
    for number in range(QUEUES):
        waiting(queue=f"q{number}")
    connection.close()
    yield
    crowd.forget_statistics()


@pytest.mark.usefixtures("one_known_queue")
def test_queues_without_consumer_are_found_by_an_entry_or_two_each() -> None:
    statement = unserved(server_of(connection), ["test"])
    assert cost_of(connection, statement) <= 2 * EACH["sqlite"] * QUEUES
