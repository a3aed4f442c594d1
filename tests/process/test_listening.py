"""A worker on PostgreSQL waits for NOTIFY."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def listeners() -> int:
    """How many sessions of this database wait for a NOTIFY."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'"
        )
        return int(cursor.fetchone()[0])


def test_a_worker_listens(start_worker: Callable[..., Any]) -> None:
    start_worker()
    wait_until(lambda: listeners() == 1, "a session that listens")
