from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.db import connection
from django.test import override_settings

from django_dbqueue.databases import server_of
from tests.lifecycle.silent import WORKER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

KEPT = "kept"
"""The queue that keeps its rows where others have them removed."""

# What one kind of server alone can do is no test of the others: left out there, not skipped.
_OF = {
    "test_server_without_autocommit.py": {"mariadb", "mysql"},
    "test_snapshots.py": {"mariadb", "mysql"},
    "test_partitioning.py": {"mariadb", "mysql", "postgres"},
    "test_partitions_kept.py": {"mariadb", "mysql", "postgres"},
}
collect_ignore = [name for name, databases in _OF.items() if settings.TEST_DATABASE not in databases]


@pytest.fixture
def session(other_connection: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """A worker's session, which holds the named lock of the worker's number."""
    with other_connection.cursor() as cursor:
        cursor.execute(*server_of(connection).sessions.take_lock(WORKER))
        assert cursor.fetchone()[0]
    return other_connection


@pytest.fixture
def removing() -> Iterator[None]:
    """An ack removes the row, but in the queue ``KEPT``."""
    with override_settings(DBQUEUE={"DEFAULTS": {"on_ack": "delete"}, "QUEUES": {KEPT: {"on_ack": "keep"}}}):
        yield
