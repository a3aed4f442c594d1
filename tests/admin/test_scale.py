"""No statement of any page examines more than 20,000 rows, however many there are: read from the server's counters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from tests.scale import rows
from tests.scale.counters import examined
from tests.scale.pages import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpResponse
    from pytest_django import DjangoDbBlocker

pytestmark = pytest.mark.django_db
MOST = 20_000 if connection.vendor != "sqlite" else 20_000 * 8
"""Rows; of SQLite, steps of its machine, of which the cheapest look at a row takes eight."""
FORBIDDEN = re.compile("_(add|delete)( |$)")
"""Ends of the names of pages that Django has and nobody may see: the rows are not written in the admin."""


@pytest.fixture(scope="module")
def table(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[rows.Size]:
    with django_db_blocker.unblock():
        rows.empty()
        rows.fill(rows.SMALL)
        rows.gather_statistics()
    yield rows.SMALL
    with django_db_blocker.unblock():
        rows.empty()
        rows.forget_statistics()
        User.objects.all().delete()
        connection.close()


@pytest.fixture
def client(db: None, table: rows.Size) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("op"))
    return client


def visit(client: Client, name: str, path: str) -> HttpResponse:
    """Look at a page; what wants a POST gets one that names nothing."""
    response = client.get(path)
    if response.status_code == 405:
        response = client.post(path)
    expected = {403} if FORBIDDEN.search(name) else {200, 302}
    assert response.status_code in expected, (name, path, response.status_code)
    return response  # type: ignore[return-value]


def test_no_statement_of_any_page_examines_more_rows_than_its_budget(client: Client) -> None:
    over = []
    for name, path in paths().items():
        with examined(connection) as found:
            visit(client, name, path)
        most = max(found, key=lambda each: each.rows, default=None)
        print(f"{name}: {len(found)} statements, {0 if most is None else most.rows} rows at most")
        over += [f"{name} ({path}): {each.rows} rows by {each.sql[:600]}" for each in found if each.rows > MOST]
    assert not over, "\n".join(over)
