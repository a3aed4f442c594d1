"""A worker that stopped sending heartbeats while it held messages, and its session."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.databases import server_of
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow
from tests.factories import QUEUE
from tests.process.conftest import wait_until

NO_BEATS = DbNow() - timedelta(seconds=4)
WORKER = secrets.randbits(60)
"""Drawn, for a lock's name is known to the whole server, and other runs of this suite may be there."""


def ask(session: BaseDatabaseWrapper, statement: Any) -> tuple[Any, ...]:
    with session.cursor() as cursor:
        cursor.execute(*statement)
        found: tuple[Any, ...] = cursor.fetchone()
        return found


def worker_without_beats(session: BaseDatabaseWrapper, number: int = WORKER, **columns: Any) -> Worker:
    """The row of a worker that stopped sending heartbeats while it held messages."""
    conn_id, server = ask(session, server_of(connection).sessions.me())
    fields = {"conn_id": conn_id, "server": server, "session_lock": number, "queues": QUEUE, "beat_every": 1}
    fields |= {"id": number, "host": "there", "pid": 7, "threads": 1, "beat_at": NO_BEATS, "late_at": NO_BEATS}
    return Worker.objects.create(**fields | columns)


def end(session: BaseDatabaseWrapper, number: int = WORKER) -> None:
    """End the worker's session, and wait until the server has seen it."""
    session.close()
    with connection.cursor() as cursor:

        def is_free() -> bool:
            cursor.execute(*server_of(connection).sessions.free_locks([number]))
            return bool(cursor.fetchall())

        wait_until(is_free, "the server to see that the session has ended")
