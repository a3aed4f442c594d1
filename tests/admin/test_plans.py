"""What the pages read: bounded ranges of an index, never sorted, whatever else is in the table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_dbqueue.admin.bounded_lists import LIST_CAP
from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.databases import Statement
from django_dbqueue.databases.own_tables import Tables
from django_dbqueue.models import Message
from tests.admin.conftest import url
from tests.plans import crowd
from tests.plans.plan import NO_INDEX, plan_of
from tests.plans.test_statements import LARGE, SMALL

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

STATEMENTS = 40
"""Of a page beside a thousand queues; one that asks each of them takes a thousand."""
FINDING = ("WITH RECURSIVE names", "SELECT DISTINCT queue", "EXPLAIN")
"""How queues are found: by a skip over the index, which plans call a scan (tests/plans/test_skipping.py)."""
OF_MESSAGES = re.compile(rf"{Tables.message}\b")
"""What isn't: an empty table, which an optimiser scans as soon as it knows."""

pytestmark = pytest.mark.django_db


@pytest.fixture(
    scope="module",
    params=[pytest.param(SMALL, id="small"), pytest.param(LARGE, id="million", marks=crowd.OF_A_MILLION)],
)
def rows(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[dict[str, int]]:
    with crowd.committed(django_db_blocker, request.param) as rows:
        yield rows


def pages() -> dict[str, str]:
    base, found = url("changelist"), {"bare": url("changelist")}
    for state in WORDS:
        found[state] = f"{base}?state={state}"
        found[f"{state} of a queue"] = f"{base}?state={state}&queue={crowd.QUEUE}"
    found["last page"] = f"{base}?state=done&queue={crowd.QUEUE}&p={LIST_CAP // 50}"
    found["backlog"] = f"{base}?state=ready&queue={crowd.BACKLOG}"
    found["key of a queue"] = f"{base}?q={crowd.KEY}&queue={crowd.QUEUE}"
    found["key"] = f"{base}?q={crowd.KEY}"
    found["id"] = f"{base}?q=7"
    found["queues"] = url("changelist", model="queue")
    found["queue"] = url("change", crowd.QUEUE, model="queue")
    found["message"] = url("change", Message.objects.ready(crowd.QUEUE)[0].pk)
    return found


def test_pages_read_no_more_than_they_show(rows: dict[str, int]) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("op"))
    for name, page in pages().items():
        client.get(page)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(page).status_code in ({200} if rows is LARGE else {200, 302}), name
        assert len(queries) <= STATEMENTS, name
        if rows is not LARGE:
            continue  # optimisers like to scan what is small
        seen = set()
        for query in queries:
            sql = query["sql"]
            if sql.startswith(FINDING):
                continue
            shape = sql[:40] + sql.partition("WHERE")[2][-60:]
            if not OF_MESSAGES.search(sql) or shape in seen or len(seen) > 40:
                continue
            seen.add(shape)
            plan = plan_of(connection, Statement(sql.replace("%", "%%"), ()))
            assert NO_INDEX not in plan.indexes, (name, sql, plan.text)
            if " ORDER BY " in sql:
                assert not plan.sorts, (name, sql, plan.text)
