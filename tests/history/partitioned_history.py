"""What tests of the history's partitions have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from django_dbqueue.databases.partitioning_sql import TABLE
from django_dbqueue.history import partitioned, partitions
from django_dbqueue.models import ArchivedMessage, ExportBatch
from django_dbqueue.sessions.django_session import session_of
from tests.commands.running import run
from tests.spark.archives import archive

SESSION = session_of("default")
EVERY = 1_000


@pytest.fixture
def one_table(transactional_db: None) -> Iterator[None]:
    """The history is one table whose ids begin with 1, and is one again."""
    truncate()
    yield
    truncate()
    with partitioned.in_turn(SESSION) as partitioner:
        there = partitions.existing(SESSION)
        if there:
            partitioner.undo(there[0])


@pytest.fixture
def in_partitions(one_table: None) -> None:
    """Before the ids 2,000, 3,000 and 4,000, and the rest; there is no row."""
    partition()


def truncate() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLE}{' RESTART IDENTITY' if connection.vendor == 'postgresql' else ''}")


def partition() -> None:
    assert run("queue_archive", "partition", "--every", str(EVERY), "--yes").code == 0


def names() -> list[str]:
    return [each.name.removeprefix(f"{TABLE}_") for each in partitions.existing(SESSION) or []]


def record_purged(last: int) -> None:
    """As if an export had taken everything up to this id into a lake, and purged it."""
    ExportBatch.objects.all().delete()
    ExportBatch.objects.create(
        lake="lake:1", number=1, first_id=1, last_id=last, rows=1, state="purged", purged_to=last
    )


def archive_at(*places: int) -> None:
    """Rows with these ids; the next row comes after the last one."""
    row = ArchivedMessage.objects.get(pk=archive(1)[0])
    row.delete()
    for place in places:
        row.pk = place
        row.save(force_insert=True)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT setval(pg_get_serial_sequence('{TABLE}', 'id'), %s)", [max(places)])
