"""An erasure reads the history by its ids, and events by their message, however many others there are."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.databases import server_of
from django_dbqueue.history import history_sql
from django_dbqueue.models import MessageEvent
from tests.plans.crowd import gather_statistics
from tests.plans.plan import cost_of
from tests.spark.archives import archive

pytestmark = pytest.mark.django_db
MOST = {"mysql": 60, "postgresql": 0, "sqlite": 900}
"""Entries read, and steps of the machine; PostgreSQL's pages are counted for the table of messages only."""


def test_rows_with_a_key_are_sought_in_a_range_of_ids() -> None:
    ids = archive(2_000, key="k")
    statement = history_sql.with_keys(server_of(connection), ids[0] - 1, ids[9], ["k", "other"])
    assert cost_of(connection, statement) <= MOST[connection.vendor]


def test_events_are_found_by_their_messages() -> None:
    MessageEvent.objects.bulk_create(
        MessageEvent(message_id=message, queue="q", kind="failed") for message in range(1, 2_001)
    )
    statement = history_sql.events_of(server_of(connection), list(range(1, 11)))
    assert cost_of(connection, statement) <= MOST[connection.vendor]


if settings.TEST_DATABASE in ("mariadb", "mysql"):

    @pytest.mark.django_db(transaction=True)
    def test_so_are_they_where_the_server_takes_the_table_for_empty(other_connection: BaseDatabaseWrapper) -> None:
        """It counts rows in the background, and knows nothing of those that have come since."""
        MessageEvent.objects.bulk_create(
            MessageEvent(message_id=message, queue="q", kind="failed") for message in range(1, 2_001)
        )
        table = MessageEvent._meta.db_table
        with other_connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} STATS_AUTO_RECALC = 0")
            try:
                cursor.execute(
                    "UPDATE mysql.innodb_table_stats SET n_rows = 0 "
                    "WHERE database_name = DATABASE() AND table_name = %s",
                    [table],
                )
                cursor.execute(f"FLUSH TABLES {table}")
                MessageEvent.objects.first()  # opening a table reads the server's own
                statement = history_sql.events_of(server_of(connection), list(range(1, 11)))
                assert cost_of(connection, statement) <= MOST[connection.vendor]
            finally:
                cursor.execute(f"ALTER TABLE {table} STATS_AUTO_RECALC = DEFAULT")
                gather_statistics(MessageEvent)


def test_the_bounds_of_the_history_are_read_at_its_ends() -> None:
    archive(2_000)
    assert cost_of(connection, history_sql.bounds(server_of(connection))) <= MOST[connection.vendor]
