"""The workers' count of what ended, minute by minute, and of hours, which are the sums of their minutes.

Everything is counted twice. *Fresh*: a few seconds after it ended, so that charts move. *Settled*: minute by minute,
LATE seconds later, replacing the fresh count; by then, transactions that acked and kept running have committed. Each
step is one transaction under the mutex of the statistics: it counts one stretch of time, adds it to its minutes, and
records its progress. If a worker is killed in it, nothing was counted, and the next one continues from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from django_dbqueue.databases.statement import chunks
from django_dbqueue.insight import totals
from django_dbqueue.insight.ended import Cell, EndedReader, TooMany, cell_of
from django_dbqueue.insight.statistics_sql import MUTEX
from django_dbqueue.lifecycle import archive_sql
from django_dbqueue.models import ALL_QUEUES, QueueMinute, QueueStatistic, StatisticProgress
from django_dbqueue.models.fields import DbNow, UTCDateTimeField, clock
from django_dbqueue.sessions.django_session import DjangoSession

LATE: Final = timedelta(minutes=5)
"""What was committed up to this long after it ended is still counted."""
BEHIND: Final = timedelta(seconds=1)
"""How far the fresh count lags behind the clock, so that it misses little that is still being committed."""
FRESH_EVERY: Final = timedelta(seconds=5)
ROWS: Final = 10_000
"""Maximum rows that one step reads, unless more ended within a millisecond."""
SECONDS: Final = 0.1
"""Seconds after which a turn begins no further step."""
MINUTES_KEPT: Final = timedelta(hours=26)
_FORGOTTEN: Final = 1_000
"""Maximum minute rows that one turn removes."""
_TOGETHER: Final = 300
"""Queues per statement."""
MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_AWHILE: Final = 0.02
"""Seconds between two checks whether another counter has finished."""
_SHORTEST: Final = timedelta(milliseconds=1)
_POINTS: Final = (0.5, 0.95, 0.99)
_PROGRESS: Final = 1


class Counter:
    """A counter for one database, working a bounded turn at a time; any number of them may compete."""

    def __init__(self, session: DjangoSession) -> None:
        self._session = session
        self._span = MINUTE
        """The length of the next stretch to try: shorter after one that was too full."""
        self._last: datetime | None = None
        """The moment up to which a last count goes, without a lag."""

    def turn(self) -> bool:
        """Count until nothing is due or another counter is active; return True if the turn's time ran out first."""
        began = time.monotonic()
        progress = _with_clock(self._session)
        if progress is not None and not _is_due(progress, progress.now):
            return False
        reader = EndedReader(self._session)
        if progress is not None and _is_between_minutes(progress) and reader.first(progress.settled_to) is None:
            return False  # and its recorded progress may stay as it is
        ran_out = False
        while not ran_out and self._session.outermost(partial(self._step, reader)):
            ran_out = time.monotonic() - began > SECONDS
        self._forget()
        return ran_out

    def count_to(self, moment: datetime, *, gives_up: Callable[[], bool]) -> bool:
        """Count all that ended before a moment, and what is due besides; False if it gave up before that.

        Nothing that ended before it may still be committed: its lag is for who calls this. Another counter is awaited.
        """
        self._last = moment
        reader = EndedReader(self._session)
        while True:
            if not self._session.outermost(partial(self._step, reader)):
                progress = _with_clock(self._session)
                if progress is not None and progress.fresh_to >= moment:
                    return True
                time.sleep(_AWHILE)  # another counter is active
            if gives_up():
                return False

    # -- a step --------------------------------------------------------------------------------------------------

    def _step(self, reader: EndedReader) -> bool:
        """Take one step; return False if nothing is due, or another counter is active."""
        server = self._session.server
        with self._session.transaction():
            if self._session.fetch(archive_sql.lock_mutex(server, MUTEX, wait=False)):
                return self._step_alone(reader)
            if self._session.fetch(archive_sql.find_mutex(server, MUTEX)):
                return False
        self._session.run(archive_sql.create_mutex(server, MUTEX))
        return True

    def _step_alone(self, reader: EndedReader) -> bool:
        progress = _with_clock(self._session) or _beginning(self._session)
        now, stood = progress.now, progress.settled_to
        end = floor(now - LATE, MINUTE)
        if progress.settled_to < end and _is_between_minutes(progress):
            first = reader.first(progress.settled_to)
            progress.settled_to = end if first is None else min(end, floor(first, MINUTE))
            totals.add_minutes(self._session, stood, progress.settled_to)
        fresh_to = self._fresh_to(progress)
        if fresh_to is not None:
            cells, progress.fresh_to = self._read(reader, max(progress.fresh_to, end), fresh_to)
            self._add(cells, shown=True)
            if progress.settled_to >= end - MINUTE:  # otherwise its hours still lack some of their minutes
                self._sum_hours((queue, minute) for queue, minute in cells)
        elif progress.settled_to < end:
            self._settle(reader, progress)
        elif progress.settled_to == stood:
            return False
        progress.save(using=self._session.using)
        return True

    def _fresh_to(self, progress: Any) -> datetime | None:
        """Return up to which moment to count afresh, or None if that is not due."""
        if self._last is not None:
            return self._last if progress.fresh_to < self._last else None
        now: datetime = progress.now
        return now - BEHIND if now - progress.fresh_to >= FRESH_EVERY + BEHIND else None

    def _settle(self, reader: EndedReader, progress: StatisticProgress) -> None:
        """Continue the settled count; a completed minute replaces the fresh one."""
        minute = floor(progress.settled_to, MINUTE)
        cells, progress.settled_to = self._read(reader, progress.settled_to, minute + MINUTE)
        self._add(cells, shown=False)
        if progress.settled_to < minute + MINUTE:
            return
        totals.add_minutes(self._session, minute, progress.settled_to)
        rows = QueueMinute.objects.using(self._session.using).filter(minute=minute)
        queues = list(rows.values_list("queue", flat=True))
        rows.filter(shown=True).delete()
        rows.update(shown=True)
        self._sum_hours((queue, minute) for queue in queues)

    def _read(
        self, reader: EndedReader, since: datetime, until: datetime
    ) -> tuple[dict[tuple[str, datetime], Cell], datetime]:
        """Return what ended from a moment on, and until when that covers; at most until the given moment."""
        while True:
            end = min(until, since + self._span)
            try:
                cells, rows = reader.cells(since, end, most=ROWS if self._span > _SHORTEST else None)
            except TooMany:
                self._span = (end - since) / 2
                continue
            if rows < ROWS / 4:
                self._span = min(MINUTE, self._span * 2)
            return cells, end

    # -- what it writes ------------------------------------------------------------------------------------------

    def _add(self, cells: dict[tuple[str, datetime], Cell], *, shown: bool) -> None:
        """Add cells to their minutes, and their sum to that of all queues."""
        for minute in {minute for _queue, minute in cells}:
            whole, of_queues = Cell(), {queue: cell for (queue, at), cell in cells.items() if at == minute}
            for cell in of_queues.values():
                whole.merge(cell)
            of_queues[ALL_QUEUES] = whole
            rows = QueueMinute.objects.using(self._session.using).filter(minute=minute, shown=shown)
            for queues in chunks(of_queues, _TOGETHER):
                existing = rows.filter(queue__in=queues)
                for row in existing:
                    of_queues[row.queue].merge(cell_of(row))
                existing.delete()
            QueueMinute.objects.using(self._session.using).bulk_create(
                (_as_minute(queue, minute, cell, shown=shown) for queue, cell in of_queues.items()), batch_size=80
            )

    def _sum_hours(self, minutes: Iterable[tuple[str, datetime]]) -> None:
        """Replace the hours of these minutes, and of all queues together, by the sums of their minutes."""
        changed: dict[datetime, set[str]] = {}
        for queue, minute in minutes:
            changed.setdefault(floor(minute, _HOUR), {ALL_QUEUES}).add(queue)
        for hour, queues in changed.items():
            for some in chunks(queues, _TOGETHER):
                self._sum_hour(hour, some)

    def _sum_hour(self, hour: datetime, queues: Collection[str]) -> None:
        sums: dict[str, Cell] = {}
        minutes = QueueMinute.objects.using(self._session.using).filter(queue__in=queues, shown=True)
        for row in minutes.filter(minute__gte=hour, minute__lt=hour + _HOUR):
            sums.setdefault(row.queue, Cell()).merge(cell_of(row))
        hours = QueueStatistic.objects.using(self._session.using)
        hours.filter(hour=hour, queue__in=queues).delete()
        hours.bulk_create((_as_hour(queue, hour, cell) for queue, cell in sums.items()), batch_size=60)

    def _forget(self) -> None:
        """Remove old minutes, but none of an hour that is still being summed."""
        progress = StatisticProgress.objects.using(self._session.using).filter(pk=_PROGRESS).first()
        if progress is None:  # another counter is making the first count ever
            return
        before = min(progress.fresh_to, floor(progress.settled_to, _HOUR)) - MINUTES_KEPT
        rows = QueueMinute.objects.using(self._session.using)
        old = list(rows.filter(minute__lt=before).order_by("minute").values_list("id", flat=True)[:_FORGOTTEN])
        for some in chunks(old, _TOGETHER):
            rows.filter(id__in=some).delete()


def _as_minute(queue: str, minute: datetime, cell: Cell, *, shown: bool) -> QueueMinute:
    return QueueMinute(
        queue=queue,
        minute=minute,
        shown=shown,
        messages=cell.messages,
        failures=cell.failures,
        retries=cell.retries,
        dead=cell.dead,
        wait=cell.wait.to_text(),
        run=cell.run.to_text(),
    )


def _as_hour(queue: str, hour: datetime, cell: Cell) -> QueueStatistic:
    wait, took = cell.wait.percentiles(_POINTS), cell.run.percentiles(_POINTS)
    return QueueStatistic(
        queue=queue,
        hour=hour,
        messages=cell.messages,
        failures=cell.failures,
        retries=cell.retries,
        dead=cell.dead,
        **dict(zip(("wait_p50", "wait_p95", "wait_p99"), wait, strict=True)),
        **dict(zip(("run_p50", "run_p95", "run_p99"), took, strict=True)),
    )


def _with_clock(session: DjangoSession) -> Any:
    """Return the progress of the count, and the database's clock; None before the first count."""
    rows = StatisticProgress.objects.using(session.using).annotate(now=DbNow(output_field=UTCDateTimeField()))
    return rows.filter(pk=_PROGRESS).first()


def _beginning(session: DjangoSession) -> Any:
    """Let the first count ever begin with the hour before this one."""
    progress: Any = StatisticProgress(id=_PROGRESS)
    progress.now = clock(session.using)
    progress.fresh_to = progress.settled_to = floor(progress.now - _HOUR, _HOUR)
    return progress


def _is_between_minutes(progress: StatisticProgress) -> bool:
    """Return whether no minute is half settled."""
    return bool(progress.settled_to == floor(progress.settled_to, MINUTE))


def _is_due(progress: StatisticProgress, now: datetime) -> bool:
    return bool(now - progress.fresh_to >= FRESH_EVERY + BEHIND or progress.settled_to < floor(now - LATE, MINUTE))


def floor(moment: datetime, to: timedelta) -> datetime:
    """Return the moment at which the minute, the hour or another part of the day began."""
    since_midnight = moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return moment - since_midnight % to
