"""An archive with rows of every kind, for tests that follow or export it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from django_dbqueue.models import ArchivedMessage, Message
from tests import factories

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
COLUMNS = [field.name for field in ArchivedMessage._meta.concrete_fields]
"""Those that a lake has too."""


def archive(number: int, *, queue: str = "tests", finished_at: datetime = NOON, **columns: Any) -> list[int]:
    """Rows that look as if they had been archived two days ago; returns their ids."""
    moments = dict.fromkeys(("due_at", "created_at", "claimed_at"), finished_at - timedelta(seconds=1))
    columns = {"outcome": "done", "priority": 0, "read_count": 1, "crashes": 0, "content_type": "json"} | columns
    columns.setdefault("archived_at", timezone.now() - timedelta(days=2))
    ArchivedMessage.objects.bulk_create(
        ArchivedMessage(
            queue=queue, message_id=message, body=f'{{"n": {message}}}', finished_at=finished_at, **moments | columns
        )
        for message in range(1, number + 1)
    )
    return ids()[-number:]


def archive_by_and_by(rows: int, *, begin: datetime, step: timedelta, first: int = 1) -> None:
    """Rows with ids from the first on, each of which ended a step after the one before."""
    every = (
        ArchivedMessage(
            id=first + place, message_id=first + place, outcome="done", queue="old", body="{}", content_type="json",
            priority=0, read_count=1, crashes=0, created_at=begin, due_at=begin, claimed_at=begin,
            finished_at=begin + place * step, archived_at=begin + place * step,
        )
        for place in range(rows)
    )  # fmt: skip
    ArchivedMessage.objects.bulk_create(every, batch_size=500)


def archive_every_outcome() -> None:
    """A message of each outcome that went the whole way, with what is odd in a text."""
    factories.done(payload={"text": 'ünï 🚀\n"quoted", \\ \t %s'}, headers={"trace": "1"}, key="clé 🔑", queue="Q1")
    factories.waiting(payload="", queue="q1", key="k")
    assert Message.objects.drop("q1", "k", reason="no longer wanted")
    factories.dead(payload=None, queue="12", reason="never")
    assert Message.objects.all().purge() == 3
    assert set(ArchivedMessage.objects.values_list("outcome", flat=True)) == {"done", "dropped", "dead"}


def ids() -> list[int]:
    return list(ArchivedMessage.objects.order_by("pk").values_list("pk", flat=True))


def rows() -> list[tuple[Any, ...]]:
    """The archive by its ids."""
    return list(ArchivedMessage.objects.order_by("pk").values_list(*COLUMNS))


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The same of a data frame."""
    names = ["headers" if name == "headers_text" else name for name in COLUMNS]
    return [tuple(_in_utc(value) for value in row) for row in frame.orderBy("id").select(*names).collect()]


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def ids_of(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())
