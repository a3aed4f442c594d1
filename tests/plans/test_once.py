"""A token is looked up by its hash, however many are kept, and whatever the server believes (P20)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from django_dbqueue.databases import Statement, server_of
from django_dbqueue.keys import key_hash
from django_dbqueue.lifecycle import once_sql
from django_dbqueue.models import Once
from tests.plans import crowd
from tests.plans.plan import cost_of, plan_of

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker


pytestmark = pytest.mark.django_db
KEPT, EXPIRED = 20_000, 2_000
"""How many tokens are kept, and how many of those have expired."""
MOST = {"mysql": 100, "postgresql": 150, "sqlite": 4_000}
"""What ten rows may cost (as in test_statements)."""


@pytest.fixture(scope="module", params=["stale", "fresh"])
def hashes(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[list[str]]:
    """Ten that are kept."""
    now = datetime.now(UTC)
    with django_db_blocker.unblock():
        Once.objects.all().delete()
        crowd.gather_statistics(Once)
        crowd.forget_statistics()
        Once.objects.bulk_create(
            [
                Once(
                    hash=key_hash("q", f"t{n}"), message_id=n, expires_at=now + timedelta(days=-1 if n < EXPIRED else 1)
                )
                for n in range(KEPT)
            ],
            batch_size=5_000,
        )
        if request.param == "fresh":
            crowd.gather_statistics(Once)
    yield [key_hash("q", f"t{n}") for n in range(KEPT - 10, KEPT)]
    with django_db_blocker.unblock():
        Once.objects.all().delete()
        crowd.forget_statistics()
        connection.close()


def statements(hashes: list[str]) -> dict[str, Statement]:
    return {
        "take tokens": once_sql.take(server_of(connection), dict.fromkeys(hashes, 60.0)),
        "read whose they are": once_sql.read_back(server_of(connection), hashes),
        "name their messages": once_sql.name(
            server_of(connection), {token: number for number, token in enumerate(hashes)}
        ),
        "those that have expired": once_sql.expired(server_of(connection), 10),
        "forget some": once_sql.delete(server_of(connection), hashes),
    }


@pytest.mark.parametrize("what", list(statements(["a"])))
def test_a_token_costs_the_same_however_many_are_kept(hashes: list[str], what: str) -> None:
    statement = statements(hashes)[what]
    assert cost_of(connection, statement, everywhere=True) <= MOST[connection.vendor], plan_of(
        connection, statement
    ).text
