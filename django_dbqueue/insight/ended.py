"""What ended within a stretch of time: each message that was acked or dropped, and each death, once.

Messages move from the hot table into the history, and never back. The hot table is read first: what left it before that
is in the history by then, and what was read twice is recognised by its id. Deaths are read from their events, since no
index knows when a dead row died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

from django_dbqueue.databases import Statement
from django_dbqueue.databases.moments import to_column
from django_dbqueue.databases.statement import MAX_IDS, Row, chunks
from django_dbqueue.insight import statistics_sql
from django_dbqueue.insight.histogram import Histogram
from django_dbqueue.insight.statistics_sql import Stretch
from django_dbqueue.models.fields import to_utc
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements.events_sql import DEADLY
from django_dbqueue.states.ranges_in_use import ranges_in_use

if TYPE_CHECKING:
    from django_dbqueue.models import QueueMinute, QueueTotal

PAGE: Final = 5_000
"""Rows per statement."""
_RANGES: Final = 100
"""Ranges per statement."""
_MICROSECOND: Final = timedelta(microseconds=1)


class TooMany(Exception):
    """More ended within the stretch than was asked for."""


@dataclass(slots=True)
class Cell:
    """What ended in one queue within one minute, or longer."""

    messages: int = 0
    failures: int = 0
    retries: int = 0
    dead: int = 0
    wait: Histogram = field(default_factory=Histogram)
    run: Histogram = field(default_factory=Histogram)

    def merge(self, other: Cell) -> None:
        """Add another cell's contents to this one."""
        self.messages += other.messages
        self.failures += other.failures
        self.retries += other.retries
        self.dead += other.dead
        self.wait.update(other.wait)
        self.run.update(other.run)

    def _count(self, ended: Any, due: Any, claimed: Any, reads: int, *, acked: bool) -> None:
        self.messages += 1
        self.failures += max(reads - acked, 0)
        self.retries += max(reads - 1, 0)
        # Only if the last claim is the one that ended it: after a nack and then a drop, due_at is later than claimed_at
        if due is not None and claimed is not None and claimed >= due:
            self.wait.add((claimed - due) // _MICROSECOND)
            self.run.add((ended - claimed) // _MICROSECOND)


def cell_of(row: QueueMinute | QueueTotal) -> Cell:
    """Return what a row counts."""
    return Cell(
        row.messages, row.failures, row.retries, row.dead, Histogram.of_text(row.wait), Histogram.of_text(row.run)
    )


class EndedReader:
    """A reader of one database; its ranges are those that existed when it was created."""

    def __init__(self, session: DjangoSession) -> None:
        self._session = session
        self._connection = session.connection
        self._server = session.server
        self._ranges = [(each.queue, each.priority) for each in ranges_in_use(session) if each.may_hold("done")]

    def first(self, since: datetime) -> datetime | None:
        """Return the first moment from this one on at which something ended, or may have; None if nothing did."""
        moments = [moment for _range, moment in self._first_ends(since)]
        for statement in (statistics_sql.first_archived_end, statistics_sql.first_event):
            rows = self._session.fetch(statement(self._server, self._column(since)))
            moments += [self._utc(moment) for (moment,) in rows]
        return min(moments, default=None)

    def cells(
        self, since: datetime, until: datetime, *, most: int | None
    ) -> tuple[dict[tuple[str, datetime], Cell], int]:
        """Return what ended by queue and minute, and how many rows were read. TooMany beyond ``most`` rows."""
        cells: dict[tuple[str, datetime], Cell] = {}
        rows = _Rows(self._session, since, until, most)
        seen: set[int] = set()
        for (queue, priority), first in self._first_ends(since):
            if first >= until:
                continue
            build = partial(statistics_sql.done_within, self._server, queue, priority)
            for ended, message_id, due, claimed, reads, acked in rows.of(build):
                seen.add(message_id)
                self._cell(cells, queue, ended)._count(ended, due, claimed, reads, acked=bool(acked))
        for ended, _row, due, claimed, reads, outcome, queue, message_id in rows.of(
            partial(statistics_sql.archived_within, self._server)
        ):
            if message_id not in seen and outcome != "dead":
                self._cell(cells, queue, ended)._count(ended, due, claimed, reads, acked=outcome == "done")
        deaths = [row for row in rows.of(partial(statistics_sql.events_within, self._server)) if row[2] in DEADLY]
        self._count_deaths(cells, deaths)
        return cells, rows.read

    def _count_deaths(self, cells: dict[tuple[str, datetime], Cell], deaths: Sequence[Row]) -> None:
        dues: dict[int, object] = {}
        for some in chunks({row[4] for row in deaths}, MAX_IDS):
            dues.update(self._session.fetch(statistics_sql.dues(self._server, some)))
            if gone := [message_id for message_id in some if message_id not in dues]:
                dues.update(self._session.fetch(statistics_sql.archived_dues(self._server, gone)))
        for died, _row, _kind, queue, message_id, reads, claimed in deaths:
            cell = self._cell(cells, queue, died)
            cell.dead += 1
            cell._count(died, dues.get(message_id), claimed, reads or 0, acked=False)

    def _first_ends(self, since: datetime) -> Iterator[tuple[tuple[str, int], datetime]]:
        for some in chunks(self._ranges, _RANGES):
            for place, moment in self._session.fetch(
                statistics_sql.first_ends(self._server, some, self._column(since))
            ):
                yield some[place], self._utc(moment)

    def _cell(self, cells: dict[tuple[str, datetime], Cell], queue: str, moment: datetime) -> Cell:
        minute = self._utc(moment.replace(second=0, microsecond=0))
        return cells.setdefault((queue, minute), Cell())

    def _utc(self, moment: object) -> datetime:
        return _utc(moment, self._connection)

    def _column(self, moment: datetime) -> datetime | str:
        return to_column(moment, self._connection.vendor)


@dataclass(slots=True)
class _Rows:
    """A reader of a stretch's rows, page by page, up to a total number."""

    session: DjangoSession
    since: datetime
    until: datetime
    most: int | None
    read: int = 0

    def of(self, build: Callable[[Stretch, int], Statement]) -> Iterator[Row]:
        """Yield the rows; each begins with its moment, and an id that orders equal moments."""
        since, after = self.since, None
        while True:
            limit = PAGE if self.most is None else min(PAGE, self.most + 1 - self.read)
            rows = self.session.fetch_moments(build(self._stretch(since, after), limit))
            self.read += len(rows)
            if self.most is not None and self.read > self.most:
                raise TooMany
            yield from rows
            if len(rows) == limit:  # there may be more that ended at the same moment as the last one
                since, after = self._utc(rows[-1][0]), rows[-1][1]
            elif after is not None:
                since, after = since + _MICROSECOND, None
            else:
                return

    def _stretch(self, since: datetime, after: int | None) -> Stretch:
        vendor = self.session.connection.vendor
        return Stretch(to_column(since, vendor), to_column(self.until, vendor), after)

    def _utc(self, moment: object) -> datetime:
        return _utc(moment, self.session.connection)


def _utc(moment: object, connection: BaseDatabaseWrapper) -> datetime:
    utc = to_utc(moment, connection)
    assert utc is not None
    return utc
