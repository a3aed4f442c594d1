"""Events are found by their message and by their age, however many others there are, and deleted one by one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from django_dbqueue.databases import Statement, server_of
from django_dbqueue.models import MessageEvent
from django_dbqueue.models.fields import DbNow
from django_dbqueue.statements import events_sql
from tests.plans.plan import cost_of

pytestmark = pytest.mark.django_db
MOST = {"mysql": 60, "postgresql": 0, "sqlite": 900}
"""Entries read, and steps of the machine; PostgreSQL's pages are counted for the table of messages only."""


@pytest.fixture
def events() -> list[int]:
    """Two thousand of as many messages, ten of them old; the ids of these."""
    for first, count, days in ((1, 10, 40), (11, 1_990, 0)):
        MessageEvent.objects.bulk_create(
            MessageEvent(message_id=first + each, queue="q", kind="failed", at=DbNow() - timedelta(days=days))
            for each in range(count)
        )
    return list(MessageEvent.objects.filter(message_id__lte=10).values_list("id", flat=True))


def test_the_old_are_found_by_their_age(events: list[int]) -> None:
    statement = events_sql.old(server_of(connection), 30 * 86_400.0, 10)
    assert cost_of(connection, statement) <= MOST[connection.vendor]
    assert len(events) == 10


def test_those_that_are_named_are_deleted_one_by_one(events: list[int]) -> None:
    statement = events_sql.delete(server_of(connection), events)
    assert cost_of(connection, statement) <= MOST[connection.vendor]


def test_those_of_one_message_are_found_by_it(events: list[int]) -> None:
    rows = MessageEvent.objects.filter(message_id=events[0]).order_by("-id")[:200]
    sql, params = rows.query.sql_with_params()
    assert cost_of(connection, Statement(sql, params)) <= MOST[connection.vendor]
