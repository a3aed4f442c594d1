"""A worker on PostgreSQL waits for NOTIFY."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from django_dbqueue.models import Message, Queue, Worker
from tests.process.conftest import wait_until
from tests.process.resting_settings import SELDOM

pytestmark = pytest.mark.django_db(transaction=True)
RESTING = "tests.process.resting_settings"


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


def rests(beat_every: float) -> None:
    wait_until(lambda: Worker.objects.filter(beat_every=beat_every).exists(), "a worker that asks seldom")


def test_a_worker_that_hears_notices_asks_seldom(start_worker: Callable[..., Any]) -> None:
    worker = start_worker("--queues", "test", DJANGO_SETTINGS_MODULE=RESTING)
    rests(1.5 * SELDOM)
    message = Message.objects.enqueue({"do": "ok"}, queue="test")
    worker.wait_for("ok", message.pk)


def test_whoever_asks_once_an_hour_is_woken_by_a_message_a_requeue_and_a_resume(
    start_worker: Callable[..., Any],
) -> None:
    worker = start_worker("--queues", "test", "--idle-interval", "3600", DJANGO_SETTINGS_MODULE=RESTING)
    delayed = Message.objects.enqueue({"do": "ok"}, queue="test", delay=36_000)
    rests(5_400)
    sent = Message.objects.enqueue({"do": "ok"}, queue="test")
    worker.wait_for("ok", sent.pk)
    rests(5_400)
    Message.objects.filter(pk=delayed.pk).due_now()
    worker.wait_for("ok", delayed.pk)
    Queue.objects.pause("test")
    held_back = Message.objects.enqueue({"do": "ok"}, queue="test")
    rests(5_400)
    Queue.objects.resume("test")
    worker.wait_for("ok", held_back.pk)
