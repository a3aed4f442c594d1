"""As if minutes had gone by, and what a count must come to."""

from __future__ import annotations

from collections import Counter as Multiset
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Model

from django_dbqueue.insight.counter import Counter
from django_dbqueue.insight.histogram import Histogram
from django_dbqueue.models import (
    ArchivedMessage,
    Message,
    MessageEvent,
    QueueMinute,
    QueueStatistic,
    StatisticProgress,
)
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import DjangoSession

HOUR = timedelta(hours=1)
MOMENTS: dict[type[Model], tuple[str, ...]] = {
    Message: ("available_at", "due_at", "created_at", "claimed_at", "finished_at"),
    ArchivedMessage: ("due_at", "created_at", "claimed_at", "finished_at", "archived_at"),
    MessageEvent: ("at", "claimed_at"),
    QueueMinute: ("minute",),
    QueueStatistic: ("hour",),
    StatisticProgress: ("fresh_to", "settled_to"),
}


def let_pass(length: timedelta) -> None:
    """Move everything that length into the past; the hours' rows only go by whole hours."""
    assert length % timedelta(minutes=1) == timedelta(0), "minutes are rows"
    for model, names in MOMENTS.items():
        if model is QueueStatistic and length % HOUR:
            continue
        rows: Any = model._default_manager
        for row in rows.order_by(*(name for name in names[:1])):  # the earliest first, on account of unique minutes
            moved = {name: getattr(row, name) - length for name in names if getattr(row, name) is not None}
            rows.filter(pk=row.pk).update(**moved)


def count() -> None:
    """Count all that is due."""
    counter = Counter(DjangoSession("default"))
    while counter.turn():
        pass


def minutes(queue: str) -> dict[str, int]:
    """The sums of a queue's minutes."""
    total: Multiset[str] = Multiset()
    for row in QueueMinute.objects.filter(queue=queue, shown=True):
        total.update(messages=row.messages, failures=row.failures, retries=row.retries, dead=row.dead)
        total["waits"] += Histogram.of_text(row.wait).total()
        total["runs"] += Histogram.of_text(row.run).total()
    return {name: total[name] for name in ("messages", "failures", "retries", "dead", "waits", "runs")}


def hours(queue: str) -> dict[datetime, QueueStatistic]:
    return {row.hour: row for row in QueueStatistic.objects.filter(queue=queue)}


def begin() -> None:
    """Begin to count, as the first worker does."""
    count()
    assert StatisticProgress.objects.count() == 1


def early_in_the_hour() -> datetime:
    """A moment an hour ago or more, five minutes after its hour began: far enough from the edges, and counted."""
    now = clock("default")
    return (now - HOUR).replace(minute=5, second=30, microsecond=0).astimezone(UTC)


def ended_at(message: Message, moment: datetime, *, wait: float = 1.0, run: float = 0.25) -> None:
    """As if a done message had been due, claimed and acked then."""
    claimed = moment - timedelta(seconds=run)
    Message.objects.filter(pk=message.pk).update(
        available_at=moment, finished_at=moment, claimed_at=claimed, due_at=claimed - timedelta(seconds=wait)
    )


def ended_in_the_last_minute(*messages: Message) -> None:
    """As if these had ended, and been counted, in the last whole minute, and as many in each of the next two: the
    last minute is another one when somebody looks late."""
    let_pass(timedelta(minutes=2))  # what was counted so far ends before
    minute = clock("default").replace(second=0, microsecond=0) - timedelta(minutes=1)
    for message in messages:
        ended_at(message, minute + timedelta(seconds=30))
    count()
    for counted in QueueMinute.objects.filter(minute=minute, shown=True):
        for later in (1, 2):
            counted.pk, counted.minute = None, minute + timedelta(minutes=later)
            counted.save(force_insert=True)
