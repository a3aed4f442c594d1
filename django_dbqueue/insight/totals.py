"""Counts that never shrink, for monitors that keep a history of their own: what ended in each queue so far.

Workers add each minute once its final count is complete; what has ended since is read from the fresh minutes. When the
final count of a minute replaces its fresh one, the larger of the two is added, number by number: a monitor that sees a
counter shrink takes it for a restart.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from django_dbqueue.databases.statement import chunks
from django_dbqueue.insight import statistics_sql
from django_dbqueue.insight.ended import Cell, cell_of
from django_dbqueue.insight.histogram import Histogram
from django_dbqueue.models import ALL_QUEUES, QueueMinute, QueueTotal
from django_dbqueue.sessions.django_session import DjangoSession

_TOGETHER: Final = 300
"""Queues per statement."""


def add_minutes(session: DjangoSession, since: datetime, until: datetime) -> None:
    """Add the minutes of this time, whose final count is complete; in the transaction that records this."""
    rows = (
        QueueMinute.objects.using(session.using).filter(minute__gte=since, minute__lt=until).exclude(queue=ALL_QUEUES)
    )
    minutes: dict[tuple[str, datetime], Cell] = {}
    for row in rows:
        place = (row.queue, row.minute)
        minutes[place] = _larger(minutes[place], cell_of(row)) if place in minutes else cell_of(row)
    cells: dict[str, Cell] = {}
    for (queue, _), cell in minutes.items():
        cells.setdefault(queue, Cell()).merge(cell)
    for queues in chunks(cells, _TOGETHER):
        existing = QueueTotal.objects.using(session.using).filter(queue__in=queues)
        for total in existing:
            cells[total.queue].merge(cell_of(total))
        existing.delete()
        QueueTotal.objects.using(session.using).bulk_create(
            (_as_total(queue, cells[queue]) for queue in queues), batch_size=80
        )


def totals(session: DjangoSession, queues: Collection[str]) -> dict[str, Cell]:
    """Return what ended in each of these queues so far; a queue in which nothing has ended is left out."""
    cells: dict[str, Cell] = {}
    for some in chunks(queues, _TOGETHER):
        for queue, messages, failures, retries, dead, wait, run in session.fetch(
            statistics_sql.totals(session.server, some)
        ):
            found = Cell(messages, failures, retries, dead, Histogram.of_text(wait), Histogram.of_text(run))
            cells.setdefault(str(queue), Cell()).merge(found)
    return cells


def _larger(one: Cell, other: Cell) -> Cell:
    return Cell(
        max(one.messages, other.messages),
        max(one.failures, other.failures),
        max(one.retries, other.retries),
        max(one.dead, other.dead),
        Histogram(one.wait | other.wait),
        Histogram(one.run | other.run),
    )


def _as_total(queue: str, cell: Cell) -> QueueTotal:
    return QueueTotal(
        queue=queue,
        messages=cell.messages,
        failures=cell.failures,
        retries=cell.retries,
        dead=cell.dead,
        wait=cell.wait.to_text(),
        run=cell.run.to_text(),
    )
