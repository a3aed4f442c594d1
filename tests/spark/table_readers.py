"""Readers of messages without Spark, and what their tasks read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings

from django_dbqueue.models import Message
from django_dbqueue.spark.schemas import MESSAGES
from django_dbqueue.spark.table_reader import TableReader

SEVERAL_PARTITIONS = settings.TEST_DATABASE != "sqlite"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

ROWS: list[dict[str, Any]] = [
    {"id": 1, "queue": "q1", "key": "k", "created_at": NOON},
    {"id": 2, "queue": "Q1", "key": "K", "created_at": NOON + timedelta(microseconds=1)},
    {"id": 3, "queue": "q1", "key": "k ", "created_at": NOON + timedelta(hours=1), "priority": 5},
    {"id": 4, "queue": "q2", "key": None, "created_at": NOON + timedelta(days=1), "priority": -5},
    {"id": 5, "queue": "q2", "key": "ключ", "created_at": NOON - timedelta(days=1), "max_reads": 3},
    {"id": 6, "queue": "q3", "key": "é", "status": "y", "finished_at": NOON, "created_at": NOON},
]


def stored() -> None:
    for row in ROWS:
        Message.objects.create(body=f"body {row['id']}", **row)


def reader(credentials_file: str, **options: Any) -> TableReader:
    given = {"credentials_file": credentials_file, **{name: str(value) for name, value in options.items()}}
    return TableReader(given, MESSAGES.schema)


def messages(ids: Any, queue: str = "pages", **columns: Any) -> None:
    rows = [Message(id=number, queue=queue, body=str(number), **columns) for number in ids]
    Message.objects.bulk_create(rows, batch_size=1_000)


def ids_of(reading_one: TableReader) -> list[list[int]]:
    """What each task reads, in its order."""
    return [
        [number for batch in reading_one.read(partition) for number in batch.column(0).to_pylist()]
        for partition in reading_one.partitions()
    ]


def every(parts: list[list[int]]) -> list[int]:
    return sorted(number for part in parts for number in part)
