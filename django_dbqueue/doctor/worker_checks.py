"""Who is working: workers whose beat is late, and queues with messages that nothing serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue.consumers.near_queues import did_you_mean
from django_dbqueue.consumers.registry import registered
from django_dbqueue.doctor.check import examines
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, note, warning
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.models import Message, Queue, Stream, Worker
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.ranges_in_use import ranges_in_use

MOST: Final = 1_000
"""Worker rows that are read."""
MOST_NAMED: Final = 20
"""Workers or queues that are reported one by one."""
MISSED: Final = 3
"""Missed beats after which a worker is considered gone, if its session is."""


@examines("workers", needs_tables=True)
def workers(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whose beat is late."""
    now = clock(database.alias)
    rows = list(Worker.objects.using(database.alias).order_by("late_at", "id")[:MOST])
    gone = [worker for worker in rows if not lives(worker, now)]
    late = [worker for worker in rows if lives(worker, now) and worker.late_at < now]
    for worker in gone[:MOST_NAMED]:
        yield warning(
            _(
                "The worker %(worker)s has sent no heartbeat for %(age)d s (messages that it held at its last one: "
                "%(held)s)."
            )
            % {"worker": worker, "age": (now - worker.beat_at).total_seconds(), "held": worker.held},
            _(
                "Check whether its process is running. If it is gone, its messages come back automatically, at the "
                "latest when their leases expire; manage.py queue_rescue checks at once."
            ),
        )
    for worker in late[:MOST_NAMED]:
        yield note(
            _("The heartbeat of the worker %(worker)s is %(late).1f s late.")
            % {"worker": worker, "late": (now - worker.late_at).total_seconds()},
            _("Once is harmless. If it keeps happening, the machine or the database is overloaded."),
        )
    if len(gone) + len(late) > 2 * MOST_NAMED:
        yield warning(
            _("In all, %s workers are late.") % (len(gone) + len(late)), _("See the admin's page of workers.")
        )
    if not rows:
        yield note(_("No worker is running on this database."), "manage.py run_queue_worker")
    elif not gone and not late:
        yield fine(
            ngettext(
                "%(count)s worker sends its heartbeats on time.",
                "%(count)s workers send their heartbeats on time.",
                len(rows),
            )
            % {"count": len(rows)}
        )


@examines("unserved-queues", needs_tables=True)
def unserved(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check which queues have messages, but neither a live worker nor a running stream."""
    now = clock(database.alias)
    found = list(islice(_waiting(database, served(database, now), _paused(database), now), MOST_NAMED + 1))
    yield from found[:MOST_NAMED]
    if len(found) > MOST_NAMED:
        yield warning(
            _("More queues are waiting than the %s listed here.") % MOST_NAMED,
            _("Start with these, or see the admin's page of queues."),
        )
    if not found:
        yield fine(_("No queue is waiting for a worker."))


def living(database: ExaminedDatabase, now: datetime) -> list[Worker]:
    """Return the processes of workers that are alive, according to their beats."""
    rows = Worker.objects.using(database.alias).order_by("-late_at")[:MOST]
    return [worker for worker in rows if lives(worker, now)]


def lives(worker: Worker, now: datetime) -> bool:
    """Return whether a worker has missed no more beats than it may."""
    return bool(now - worker.beat_at <= timedelta(seconds=MISSED * worker.beat_every))


def served(database: ExaminedDatabase, now: datetime) -> set[str]:
    """Return queues that are served now, according to rows; claims by SQL or a script leave none."""
    queues = {name for worker in living(database, now) for name in worker.queues.split(",")}
    streams: Any = Stream.objects.using(database.alias).values_list("queue", "beat_at", "lease_seconds")[:MOST]
    return queues | {queue for queue, beat_at, lease in streams if now - beat_at <= timedelta(seconds=lease)}


def _paused(database: ExaminedDatabase) -> dict[str, Queue]:
    return {queue.name: queue for queue in Queue.objects.using(database.alias).filter(is_paused=True)[:MOST]}


def _waiting(
    database: ExaminedDatabase, served: set[str], paused: dict[str, Queue], now: datetime
) -> Iterator[Finding]:
    rows = Message.objects.using(database.alias)
    not_done = sorted({each.queue for each in ranges_in_use(session_of(database.alias)) if each.may_hold("ready")})
    for name in not_done:
        if name in served and name not in paused:
            continue
        try:
            ready = rows.peek(name, limit=1)
            delayed = [] if ready else rows.peek(name, state="delayed", limit=1)
        except InvalidMessage as error:
            yield warning(
                _("There are messages with an invalid queue name: %s") % error,
                _("The program that inserted them with SQL must use a valid name. Nothing claims these messages."),
            )
            continue
        if not ready and not delayed:
            continue
        if name in paused:
            yield _of_paused(paused[name], now)
        elif ready:
            yield _of_unserved(name, (now - ready[0].available_at).total_seconds())
        else:
            yield note(_("No worker serves the queue %r, which has delayed messages.") % name, _how_to_serve(name))


def _of_paused(queue: Queue, now: datetime) -> Finding:
    age = (now - queue.paused_at).total_seconds() if queue.paused_at else 0
    return note(
        _("The queue %(name)r has been paused for %(age)d s, by %(by)s (%(reason)s), and has waiting messages.")
        % {
            "name": queue.name,
            "age": age,
            "by": queue.paused_by or _("someone unknown"),
            "reason": queue.pause_reason or _("no reason given"),
        },
        _("Resume it in the admin, or with Queue.objects.resume(name), when the reason no longer applies.")
        if queue.paused_until is None
        else _("It continues automatically in %(left)d s, at %(end)s UTC; resume it if the reason no longer applies.")
        % {"left": (queue.paused_until - now).total_seconds(), "end": f"{queue.paused_until:%Y-%m-%d %H:%M:%S}"},
    )


def _of_unserved(name: str, age: float) -> Finding:
    return warning(
        _("No worker serves the queue %(name)r, where a message has been due for %(age)d s.")
        % {"name": name, "age": age},
        _how_to_serve(name),
    )


def _how_to_serve(name: str) -> str:
    if name in registered():
        return f"manage.py run_queue_worker --queues {name}"
    return _(
        "This project has no consumer for it: write one, or run the project that has one. Programs that claim with "
        "SQL can't be seen from here."
    ) + did_you_mean(name)
