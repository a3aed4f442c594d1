"""What ended over the last hour, day or week, as a series of points for charts and tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Sum

from django_dbqueue.databases.statement import chunks
from django_dbqueue.insight.counter import MINUTE, floor
from django_dbqueue.insight.ended import Cell, cell_of
from django_dbqueue.models import ALL_QUEUES, QueueMinute, QueueStatistic
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import DjangoSession

_WEEK: Final = 168
_HOURS_AT_ONCE: Final = 4
"""Hours of all queues that one statement sums: a server reads thousands of rows for each."""
_POINTS: Final = (0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Period:
    """A number of points of a given length, up to now."""

    points: int
    step: timedelta


SPANS: Final = {
    "hour": Period(60, MINUTE),
    "day": Period(96, timedelta(minutes=15)),
    "week": Period(_WEEK, timedelta(hours=1)),
}


@dataclass(frozen=True, slots=True)
class Point:
    """What ended in the time starting then. Times are in seconds; None if nothing was measured."""

    at: datetime
    messages: int = 0
    failures: int = 0
    dead: int = 0
    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None


def series(session: DjangoSession, span: Period, queue: str = ALL_QUEUES) -> list[Point]:
    """Return the points of a queue, or of all together; the last one covers the time still in progress."""
    last = floor(clock(session.using), span.step)
    moments = [last - back * span.step for back in reversed(range(span.points))]
    find = _of_hours if span.step >= timedelta(hours=1) else _of_minutes
    found = {point.at: point for point in find(session, span.step, queue, moments[0])}
    return [found.get(at, Point(at)) for at in moments]


def _of_minutes(session: DjangoSession, step: timedelta, queue: str, since: datetime) -> Iterable[Point]:
    cells: dict[datetime, Cell] = {}
    for row in QueueMinute.objects.using(session.using).filter(queue=queue, minute__gte=since, shown=True):
        cells.setdefault(floor(row.minute, step), Cell()).merge(cell_of(row))
    for at, cell in cells.items():
        waits, runs = cell.wait.percentiles(_POINTS), cell.run.percentiles(_POINTS)
        yield Point(at, cell.messages, cell.failures, cell.dead, *waits, *runs)


def _of_hours(session: DjangoSession, step: timedelta, queue: str, since: datetime) -> Iterable[Point]:
    hours = QueueStatistic.objects.using(session.using)
    names = ("hour", "messages", "failures", "dead", "wait_p50", "wait_p95", "run_p50", "run_p95")
    rows: Any = hours.filter(queue=queue, hour__gte=since).values_list(*names)
    points = [Point(*row) for row in rows]
    if queue == ALL_QUEUES:  # if only Spark has counted, there is no row for all of them
        known = {point.at for point in points}
        missing = [at for number in range(_WEEK) if (at := since + number * step) not in known]
        for some in chunks(missing, _HOURS_AT_ONCE):
            sums: Any = hours.filter(hour__in=some).order_by().values_list("hour")
            points += [Point(*row) for row in sums.annotate(Sum("messages"), Sum("failures"), Sum("dead"))]
    return points
