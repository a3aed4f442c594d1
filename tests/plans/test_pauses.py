"""Whether a queue is paused is looked up by its name, however many are paused, and an end costs nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from django_dbqueue.databases import server_of
from django_dbqueue.models import Queue
from django_dbqueue.models.fields import DbLater
from django_dbqueue.streams import streams_sql
from tests.factories import QUEUE
from tests.plans.plan import cost_of

pytestmark = pytest.mark.django_db
MOST = {"mysql": 2, "postgresql": 10, "sqlite": 60}


@pytest.mark.parametrize("pause", [None, {}, {"for_": 3_600}], ids=["open", "paused", "paused-with-an-end"])
def test_one_queue_is_found_by_its_name_among_a_thousand(pause: dict[str, Any] | None) -> None:
    ends = (None, DbLater(3_600), DbLater(-3_600))
    Queue.objects.bulk_create(
        Queue(name=f"queue-{number}", pause_set=True, paused_until=ends[number % 3]) for number in range(1_000)
    )
    if pause is not None:
        Queue.objects.pause(QUEUE, **pause)
    statement = streams_sql.is_paused(server_of(connection), QUEUE)
    with connection.cursor() as cursor:
        cursor.execute(statement.sql, statement.params)
        assert len(cursor.fetchall()) == (0 if pause is None else 1)
    assert cost_of(connection, statement, everywhere=True) <= MOST[connection.vendor]
