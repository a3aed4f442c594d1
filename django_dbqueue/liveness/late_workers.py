"""Workers whose beats are late, as their rows show, and rows of workers that are long gone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from django.db.models import QuerySet

from django_dbqueue.lifecycle.left_behind import LeftBehind
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbLater, DbNow, UTCDateTimeField
from django_dbqueue.sessions.apart import apart
from django_dbqueue.sessions.django_session import DjangoSession

BEAT_HOLDING: Final = 1
BEAT_IDLE: Final = 10
BEAT_RESTING: Final = 20
"""Seconds between beats of the worker's row: while it holds messages, while it holds none, and, at least, at rest."""
AT_ONCE: Final = 100
"""Late workers per check, and rows that one call of ``forget_workers`` deletes."""


class Late(NamedTuple):
    """A worker whose next beat is late, as its row shows."""

    id: int
    beat_at: datetime
    conn_id: int | None
    session_lock: int | None
    server: str
    host: str
    pid: int
    queues: str
    is_overdue: bool

    @property
    def evidence(self) -> str:
        """Say in words what it was judged by."""
        if self.session_lock is not None:
            sign = f"the named lock {self.session_lock} of its session {self.conn_id} is free"
        else:
            sign = f"its session {self.conn_id} is not in the server's list"
        return f"session gone: worker {self.host}:{self.pid} has missed three beats, and {sign}"


def workers(session: DjangoSession) -> QuerySet[Worker]:
    """Return all rows of workers."""
    return Worker.objects.using(session.using)


def late_rows(session: DjangoSession, here: str, without: Sequence[int] = ()) -> QuerySet[Worker, tuple[Any, ...]]:
    """Return those of this server whose next beat is late, the latest first, each with the database's clock."""
    late = workers(session).filter(server=here, late_at__lt=DbNow())
    if without:
        late = late.exclude(pk__in=without)
    late = late.order_by("late_at")[:AT_ONCE]
    return late.values_list(*Late._fields[:-1], "beat_every", DbNow(output_field=UTCDateTimeField()))


def late_workers(session: DjangoSession, here: str, without: Sequence[int]) -> list[Late]:
    """Return the same as workers, each with whether it is overdue."""
    rows = late_rows(session, here, without)
    return [Late._make((*row, is_overdue(row[1], every, now))) for *row, every, now in rows]


def is_overdue(beat_at: datetime, beat_every: float, now: datetime) -> bool:
    """Check whether a worker has missed three beats. ``beat_every``: seconds from one beat to the next.

    One that rests holds nothing, and beats seldom: ten seconds after its beat was due it is as late as any idle one.
    """
    after = 3 * beat_every if beat_every < BEAT_RESTING else beat_every + BEAT_IDLE
    return beat_at + timedelta(seconds=after) < now


def lock(session: DjangoSession, worker_id: int, beat_at: datetime, here: str) -> bool:
    """Lock the row of a worker that has sent no heartbeat since then; False if it is about to beat, or has."""
    same = workers(session).filter(pk=worker_id, beat_at=beat_at, server=here)
    return bool(same.select_for_update(skip_locked=True).values_list("pk"))


def forget_workers(session: DjangoSession, *, age: float, left: LeftBehind) -> None:
    """Delete rows of workers that have sent no heartbeat for ``age`` seconds; a locked one stays.

    They are found by a read without locks: a DELETE that scans waits for every row, those of living workers too.
    """
    without_beats = workers(session).filter(beat_at__lt=DbLater(-age)).values_list("pk", "beat_at", "server")
    rows = {row[0]: row for row in without_beats[: AT_ONCE + left.met]}

    def forget(some: list[int]) -> None:
        for worker_id in some:
            with session.transaction():
                if lock(session, *rows[worker_id]):
                    delete(session, worker_id)

    for worker_id in left.unmet(rows):
        apart([worker_id], lambda some: session.outermost(partial(forget, some)), left.refused)


def delete(session: DjangoSession, worker_id: int) -> None:
    """Delete a worker's row, and nothing of a project's that points to it."""
    workers(session).filter(pk=worker_id)._raw_delete(session.using)


def delete_ended(session: DjangoSession, worker_id: int) -> None:
    """Delete the row of a worker that holds nothing any more; what the server doesn't let go stays, and is named."""
    apart([worker_id], lambda _: session.outermost(partial(delete, session, worker_id)), LeftBehind("Worker").refused)
