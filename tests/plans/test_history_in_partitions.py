"""What is read of the history costs as much in partitions as in one table, and is found by the same indexes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from django_dbqueue.databases import Server, Statement, server_of
from django_dbqueue.history import history_sql
from django_dbqueue.insight import statistics_sql
from django_dbqueue.insight.statistics_sql import Stretch
from django_dbqueue.lifecycle import once_sql
from django_dbqueue.statements import scan_sql
from tests.history.partitioned_history import in_partitions, one_table
from tests.plans.crowd import gather_statistics
from tests.plans.plan import cost_of
from tests.spark.archives import archive_by_and_by

__all__ = ["in_partitions", "one_table"]
pytestmark = pytest.mark.django_db(transaction=True)
ROWS, FEW = 3_900, 10
LITTLE = 60
"""Entries or pages, of nearly four thousand rows or hundreds of pages: an index of each partition is looked into."""
BEGIN = timezone.now() - timedelta(days=2)
NOON = BEGIN + timedelta(seconds=2_500)
READS: dict[str, Callable[[Server], Statement]] = {
    "the ends": lambda d: scan_sql.ends(d.archived),
    "a reader's next rows": lambda d: history_sql.following(d, 2_500, ROWS, FEW),
    "a batch to plan": lambda d: history_sql.window(d, 1_995, FEW, timezone.now()),
    "a batch's rows": lambda d: history_sql.count_history(d, 1_995, 2_005),
    "a chunk to purge": lambda d: history_sql.purge_end(d, 1_995, ROWS, FEW),
    "the first row of a partition": lambda d: history_sql.first_at(d, 3_000),
    "whether the rest has rows": lambda d: history_sql.count_from(d, 4_000, FEW),
    "the first end": lambda d: statistics_sql.first_archived_end(d, NOON),
    # MariaDB sorts a stretch for each of its pages: over partitions it takes no index for (finished_at, id)
    "what ended then": lambda d: statistics_sql.archived_within(d, Stretch(NOON, NOON + timedelta(seconds=30)), FEW),
    "some messages": lambda d: statistics_sql.archived_dues(d, [17, 2_017, 3_017]),
    "one message": lambda d: once_sql.in_history(d, 2_017),
}


@pytest.fixture
def full(in_partitions: None) -> None:
    archive_by_and_by(ROWS, begin=BEGIN, step=timedelta(seconds=1))
    gather_statistics()
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {'TABLE ' if connection.vendor == 'mysql' else ''}django_dbqueue_archivedmessage")


def test_an_index_finds_it(full: Any) -> None:
    server = server_of(connection)
    costs = {name: cost_of(connection, build(server), everywhere=True) for name, build in READS.items()}
    assert {name: cost for name, cost in costs.items() if cost > LITTLE} == {}
