"""Who holds a message and who serves a queue, and the signs that they are alive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue.insight.vital_signs import Sign, sign_of_session, sign_of_worker
from django_dbqueue.liveness.late_workers import is_overdue
from django_dbqueue.models import StreamClaim
from django_dbqueue.models.message import Message
from django_dbqueue.models.stream import Stream
from django_dbqueue.models.worker_row import Worker
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.spans import span
from django_dbqueue.streams.ownership import is_running

MOST_READ: Final = 1_000
"""Workers that are checked per queue."""
NAMED: Final = 5


class Answer(Enum):
    """What the signs say about a holder."""

    LIVES = "lives"
    NO_HEARTBEAT = "silent"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Owner:
    """The holder of a running message."""

    name: str
    answer: Answer
    evidence: tuple[str, ...]
    is_stream: bool = False
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Servers:
    """The workers and streams that serve a queue, one line of text each."""

    alive: tuple[str, ...]
    without_beats: tuple[str, ...]


def owner_of(message: Message, now: datetime) -> Owner:
    """Say who holds a running message whose stream was joined."""
    session = message._session
    if message.stream_claim is not None:
        return _stream(message.stream_claim, session, now)
    worker = (
        None if message.worker_id is None else Worker.objects.using(session.using).filter(pk=message.worker_id).first()
    )
    if worker is not None:
        return _worker(worker, session, now)
    name = _("session %(id)s") % {"id": message.conn_id}
    if message.worker_id is not None:
        text = _("Its worker no longer has a row: it ended, or was found dead.")
        return Owner(name, Answer.GONE, (text,))
    sign = sign_of_session(session, message.conn_id)
    answer = {Sign.THERE: Answer.LIVES, Sign.GONE: Answer.GONE, Sign.UNKNOWN: Answer.UNKNOWN}[sign]
    evidence = (
        _("It was claimed by a program that is not a worker: only the lease counts."),
        _words(sign, message.conn_id),
    )
    return Owner(name, answer, evidence)


def _worker(worker: Worker, session: DjangoSession, now: datetime) -> Owner:
    name = _("worker %(worker)s") % {"worker": worker}
    beat = _("Its worker sent a heartbeat %(span)s ago, and sends one every %(every)s s.") % {
        "span": span(now - worker.beat_at),
        "every": worker.beat_every,
    }
    sign = sign_of_worker(session, here=worker.server, conn_id=worker.conn_id, session_lock=worker.session_lock)
    evidence = (beat, _words(sign, worker.conn_id, lock=worker.session_lock))
    if not is_overdue(worker.beat_at, worker.beat_every, now):
        return Owner(name, Answer.LIVES, evidence)
    return Owner(name, Answer.GONE if sign is Sign.GONE else Answer.NO_HEARTBEAT, evidence)


def _words(sign: Sign, conn_id: int | None, *, lock: int | None = None) -> str:
    ids = {"id": conn_id, "lock": lock}
    if sign is Sign.UNKNOWN:
        return _("Whether its session %(id)s still exists can't be seen from here.") % ids
    if lock is not None:
        if sign is Sign.THERE:
            return _("Its session %(id)s holds its named lock %(lock)s.") % ids
        return _("The named lock %(lock)s of its session %(id)s is free: that session is gone.") % ids
    if sign is Sign.THERE:
        return _("Its session %(id)s is in the server's list.") % ids
    return _("Its session %(id)s is not in the server's list.") % ids


def _stream(claim: StreamClaim, session: DjangoSession, now: datetime) -> Owner:
    words = {"name": claim.stream, "number": claim.number}
    name = _("stream %(name)s, claim %(number)s") % words
    stream = Stream.objects.using(session.using).filter(pk=claim.stream).first()
    runs = is_running(session, claim.stream)
    evidence = [_("A query is running the stream.") if runs else _("No query is running the stream.")]
    if stream is not None:
        beat = {"span": span(now - stream.beat_at), "runner": stream.runner or "–"}
        evidence.append(_("Its run (%(runner)s) sent a heartbeat %(span)s ago.") % beat)
    if runs:
        advice = _("It is acknowledged when the query has committed its batch.")
    else:
        advice = (
            _(
                "Start the query again, which continues with this claim; or release all claims of the stream: "
                "manage.py queue_pipeline release --stream %(name)s"
            )
            % words
        )
    return Owner(name, Answer.LIVES if runs else Answer.NO_HEARTBEAT, tuple(evidence), is_stream=True, advice=advice)


def servers_of(queue: str, session: DjangoSession, now: datetime) -> Servers:
    """Say which workers and streams serve a queue."""
    rows = Worker.objects.using(session.using).filter(queues__contains=queue).order_by("-beat_at")[:MOST_READ]
    workers = [worker for worker in rows if queue in worker.queues.split(",")]
    alive = [_busy(worker, now) for worker in workers if worker.beats(now)]
    without_beats = [_without_beats(worker, now) for worker in workers if not worker.beats(now)]
    streams = [each.name for each in Stream.objects.using(session.using).filter(queue=queue)[:NAMED]]
    runs = [name for name in streams if is_running(session, name)]
    alive += [_("The stream %(name)s serves the queue.") % {"name": name} for name in runs]
    return Servers(_few(alive), _few(without_beats))


def _busy(worker: Worker, now: datetime) -> str:
    return ngettext(
        "Worker %(worker)s serves the queue: %(held)d held by %(threads)d thread, last heartbeat %(span)s ago.",
        "Worker %(worker)s serves the queue: %(held)d held by %(threads)d threads, last heartbeat %(span)s ago.",
        worker.threads,
    ) % {
        "worker": worker,
        "held": worker.held,
        "threads": worker.threads,
        "span": span(now - worker.beat_at),
    }


def _without_beats(worker: Worker, now: datetime) -> str:
    return _("Worker %(worker)s served the queue, and sent its last heartbeat %(span)s ago.") % {
        "worker": worker,
        "span": span(now - worker.beat_at),
    }


def _few(lines: list[str]) -> tuple[str, ...]:
    more = len(lines) - NAMED
    if more <= 0:
        return tuple(lines)
    text = ngettext("And %(count)d more.", "And %(count)d more.", more) % {"count": more}
    return (*lines[:NAMED], text)
