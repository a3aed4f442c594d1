"""A scrape beside ten million messages examines no more than 20,000 rows, all its statements together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from django_dbqueue.contrib.health_view import problems
from django_dbqueue.contrib.openmetrics.exposition import exposition
from django_dbqueue.contrib.openmetrics.figures import families, figures
from tests.scale.counters import examined
from tests.scale.filled import MOST, SIZES, filled
from tests.scale.size import Size, hot

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module", params=SIZES)
def table(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Size]:
    with filled(request.param, django_db_blocker) as size:
        yield size


def test_a_scrape_examines_no_more_rows_than_its_budget(table: Size) -> None:
    exposition(families(figures("default")))
    with examined(connection) as found:
        seen = figures("default")
    total = sum(each.rows for each in found)
    times = [_timed_scrape() for _ in range(5)]
    print(f"{len(found)} statements, {total} rows; at best {min(times) * 1000:.0f} ms")
    most = "\n".join(f"{each.rows} by {each.sql[:200]}" for each in sorted(found, key=lambda each: -each.rows)[:5])
    assert 0 < total <= MOST, most
    deep = seen.depths[hot("ready")].counts["ready"]
    assert deep.more
    assert 0 < deep < table.ready
    assert seen.oldest_ready[hot("ready")] > 60


def _timed_scrape() -> float:
    began = time.perf_counter()
    exposition(families(figures("default")))
    return time.perf_counter() - began


def test_a_check_of_the_health_examines_no_more_rows(table: Size) -> None:
    with examined(connection) as found:
        wrong = [(each.queue, each.problem) for each in problems("default", max_age=60)]
    assert (hot("dead"), "dead") in wrong
    assert (hot("ready"), "old") in wrong
    assert 0 < sum(each.rows for each in found) <= MOST
