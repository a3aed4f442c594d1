"""What brings a message to a worker of PostgreSQL: NOTIFY where its driver can tell of it, else a look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from django_dbqueue.models import Message
from tests.process.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)


def listeners() -> int:
    """How many sessions of this database wait for a NOTIFY."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'"
        )
        return int(cursor.fetchone()[0])


def test_a_worker_listens_with_psycopg_3(start_worker: Callable[..., Any]) -> None:
    start_worker()
    wait_until(lambda: listeners() == 1, "a session that listens")


def test_a_worker_with_psycopg_2_finds_messages_without_listening(start_worker: Callable[..., Any]) -> None:
    worker = start_worker("-v", "2", DBQUEUE_TEST_PSYCOPG="2")
    for _ in range(2):  # the second comes while it waits
        message = Message.objects.enqueue({"do": "ok"}, queue="test")
        worker.wait_for("end", message.pk)
        assert listeners() == 0
    assert "listener" not in worker.output
