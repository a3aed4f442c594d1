"""What is going on right now: how much arrives, and which messages each worker holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django_dbqueue.databases.statement import chunks
from django_dbqueue.insight import watch_sql
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow, UTCDateTimeField, clock, to_utc
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.ranges_in_use import ranges_in_use

NEWEST: Final = 5_000
"""Messages that are read to estimate how many arrive."""
MINUTE: Final = 60.0
WORKERS: Final = 100
HELD: Final = 2_000
"""Running messages that are read to find who holds which."""
NAMED: Final = 5
"""Messages that are named per worker."""
_RANGES: Final = 100


@dataclass(frozen=True, slots=True)
class Incoming:
    """How many messages per minute were sent lately, by queue."""

    by_queue: dict[str, int]
    is_estimate: bool
    """Whether more than NEWEST arrived within the minute, so the count is extrapolated from a shorter time."""


@dataclass(frozen=True, slots=True)
class Held:
    """A message, and since when it is held."""

    id: int
    queue: str
    since: datetime


@dataclass(slots=True)
class Busy:
    """A worker, and the messages that it holds, longest held first, up to NAMED."""

    worker: Any
    """With ``now``, the moment of the database's clock."""
    holds: list[Held] = field(default_factory=list)

    @property
    def beats(self) -> bool:
        """Whether it is alive by its last beat."""
        return bool(self.worker.beats(self.worker.now))


def incoming(session: DjangoSession) -> Incoming:
    """Return how many messages arrived within the last minute; what was archived since is missing."""
    connection = session.connection
    rows = session.fetch(watch_sql.newest(session.server, MINUTE, NEWEST))
    read = sum(int(count) for _queue, count, _fresh, _first in rows)
    fresh = {str(queue): int(count) for queue, _all, count, _first in rows}
    if read < NEWEST or sum(fresh.values()) < read:
        return Incoming(fresh, is_estimate=False)
    first = min(to_utc(moment, connection) or clock(session.using) for *_, moment in rows)
    covered = max((clock(session.using) - first).total_seconds(), 0.001)
    return Incoming({queue: round(count * MINUTE / covered) for queue, count in fresh.items()}, is_estimate=True)


def busy_workers(session: DjangoSession) -> list[Busy]:
    """Return the workers with the most recent beats, and what they hold among each queue's first running rows."""
    rows = Worker.objects.using(session.using).annotate(now=DbNow(output_field=UTCDateTimeField()))
    found = {row.pk: Busy(row) for row in rows.order_by("-beat_at", "id")[:WORKERS]}
    if not any(each.worker.held for each in found.values()):
        return list(found.values())
    connection = session.connection
    ranges = [(each.queue, each.priority) for each in ranges_in_use(session) if each.may_hold("running")][:HELD]
    held: list[tuple[int, Held]] = []
    for some in chunks(ranges, _RANGES):
        for worker, message_id, queue, since in session.fetch(
            watch_sql.in_hands(session.server, some, HELD // len(ranges))
        ):
            claimed = to_utc(since, connection)
            if worker in found and claimed is not None:
                held.append((worker, Held(message_id, str(queue), claimed)))
    for worker, each in sorted(held, key=lambda pair: pair[1].since):
        if len(found[worker].holds) < NAMED:
            found[worker].holds.append(each)
    return list(found.values())
