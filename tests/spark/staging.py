"""Stages as tasks fill them, without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from django_dbqueue.envelope import Envelope, seal
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.spark import staging_sql
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.publication import TaskAttempt
from django_dbqueue.spark.rows import row_of

QUEUE = "staged"


def connect() -> Connection:
    return Connection(credentials_of("default"))


def number() -> int:
    return random.randint(1, 2**62)


def stage(envelopes: Iterable[Any], *, run: int, job: str = "job", queue: str = QUEUE) -> TaskAttempt:
    """One successful try of a task."""
    items = [each if isinstance(each, Envelope) else Envelope(each) for each in envelopes]
    sealed = [seal(item, queue=queue, priority=0, max_bytes=1000) for item in items]
    attempt = TaskAttempt(number(), len(sealed), any(item.lane is not None for item in sealed))
    with connect() as connection:
        rows = [row_of(item, connection.vendor) for item in sealed]
        connection.run(staging_sql.stage(connection.server, job, run, attempt.number, rows, place=0))
    return attempt
