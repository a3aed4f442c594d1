"""The history of a stretch of time costs what ended in it, whatever else is in the archive."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from django_dbqueue.databases import Statement
from django_dbqueue.models import ArchivedMessage
from django_dbqueue.spark.arrow import Pages
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.schemas import HISTORY
from django_dbqueue.spark.table_reader import TableReader
from tests.plans.crowd import forget_statistics, gather_statistics
from tests.plans.plan import cost_of
from tests.spark.archives import archive_by_and_by
from tests.spark.table_readers import NOON, every, ids_of

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = 20_000, 200
STEP = timedelta(minutes=5)
BUDGET = OLD // 2
"""Of all statements together, in rows, pages or steps: looking at each old row once is beyond it."""


@pytest.fixture
def archive(transactional_db: None) -> Iterator[None]:
    """An archive of many old rows, and of a few that have ended since noon."""
    archive_by_and_by(OLD + NEW, begin=NOON - OLD * STEP, step=STEP)
    gather_statistics(ArchivedMessage)
    yield
    forget_statistics()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[Statement]:
    """What readers ask the database, to plan and to read."""
    noted: list[Statement] = []
    fetch, read = Connection.fetch, Pages.read

    def noted_fetch(session: Connection, statement: Statement) -> Any:
        noted.append(statement)
        return fetch(session, statement)

    def noted_read(pages: Pages, statement: Statement) -> Any:
        noted.append(statement)
        return read(pages, statement)

    monkeypatch.setattr(Connection, "fetch", noted_fetch)
    monkeypatch.setattr(Pages, "read", noted_read)
    return noted


def cost(statements: list[Statement]) -> int:
    return sum(cost_of(connection, statement, everywhere=True) for statement in statements)


def reader(credentials_file: str, **options: str) -> TableReader:
    given = {"credentials_file": credentials_file, "source": "history", "maxConnections": "0", **options}
    return TableReader(given, HISTORY.schema)


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("parts", ["1", "4"])
@pytest.mark.parametrize("place", ["the last", "in between"])
def test_a_stretch_of_the_history_costs_what_ended_in_it(
    credentials_file: str, statements: list[Statement], place: str, parts: str
) -> None:
    since, first = {"the last": (NOON, OLD), "in between": (NOON - OLD // 2 * STEP, OLD // 2)}[place]
    until = since + NEW * STEP
    one = reader(credentials_file, since=since.isoformat(), until=until.isoformat(), numPartitions=parts)
    assert every(ids_of(one)) == [*range(first + 1, first + NEW + 1)]
    assert cost(statements) <= BUDGET


@pytest.mark.usefixtures("archive")
def test_a_stretch_in_which_nothing_ended_is_not_read(credentials_file: str, statements: list[Statement]) -> None:
    one = reader(credentials_file, since=(NOON + NEW * STEP).isoformat())
    assert every(ids_of(one)) == []
    assert cost(statements) <= BUDGET // 10


def test_rows_that_were_archived_in_another_order_than_they_ended_are_read_all_the_same(credentials_file: str) -> None:
    archive_by_and_by(5, begin=NOON, step=-timedelta(hours=1))
    archive_by_and_by(5, begin=NOON - timedelta(days=1), step=timedelta(hours=12), first=6)
    since, until = NOON - timedelta(hours=3), NOON + timedelta(hours=1)
    one = reader(credentials_file, since=since.isoformat(), until=until.isoformat())
    assert every(ids_of(one)) == [1, 2, 3, 4, 8]
