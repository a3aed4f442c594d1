"""Groups with a limit or a rate of their own, or a pause, are found by an entry each among all that have a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.databases import Statement
from django_dbqueue.insight.groups import find_groups
from django_dbqueue.keys import LANES, first_lane
from django_dbqueue.models import Group
from django_dbqueue.sessions.django_session import session_of
from tests.plans import crowd
from tests.plans.plan import cost_of

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

pytestmark = pytest.mark.django_db
QUEUES = ("one", "another")
EACH, OWN = 10_000, 20
"""Groups of a queue that have a row for the times of its rate; and those of them that have something of their own."""
MOST = {"mysql": 3, "postgresql": 4, "sqlite": 60}
"""What a group that is found may cost: entries and rows read, pages, steps of the machine."""


@pytest.fixture(scope="module", params=["stale", "fresh"], autouse=True)
def groups(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        Group.objects.all().delete()
        crowd.gather_statistics(Group)
        for queue in QUEUES:
            lanes = [first_lane(queue) + number * (LANES // EACH) for number in range(EACH)]
            rows = [Group(lane=lane, queue=queue, name=str(lane)) for lane in lanes]
            Group.objects.bulk_create(rows, batch_size=2_000)
            last = lanes[-OWN:]
            Group.objects.filter(lane__in=last[::2]).update(width=3)
            Group.objects.filter(lane__in=last[1::2]).update(rate="5/s", is_paused=True)
        if request.param == "fresh":
            crowd.gather_statistics(Group)
    yield
    with django_db_blocker.unblock():
        Group.objects.all().delete()
        crowd.gather_statistics(Group)
        connection.close()


@pytest.mark.parametrize("queue", [None, QUEUES[0]])
def test_the_list_of_groups_reads_no_row_that_it_does_not_show(queue: str | None) -> None:
    with CaptureQueriesContext(connection) as queries:
        search = find_groups(session_of("default"), queue=queue, limit=100)
    shown = OWN * (len(QUEUES) if queue is None else 1)
    assert len(search.found) == shown
    table = connection.ops.quote_name(Group._meta.db_table)
    statements = [Statement(each["sql"].replace("%", "%%"), ()) for each in queries if table in each["sql"]]
    costs = [cost_of(connection, each, everywhere=True) for each in statements]
    assert len(costs) == 2
    assert max(costs) <= shown * MOST[connection.vendor]
