"""Every queue at a glance: its depth, whether it is paused, which workers serve it, and what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.consumers.registry import has_consumer
from django_dbqueue.models.fields import clock, to_utc
from django_dbqueue.models.queue import Queue
from django_dbqueue.models.stream import Stream
from django_dbqueue.models.worker_row import Worker, beating
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import Capped
from django_dbqueue.states.depths import CAP, UNFINISHED, depths
from django_dbqueue.states.ranges_in_use import queues_in_use
from django_dbqueue.streams.ownership import is_running

MOST_STREAMS: Final = 500
"""Streams of which an overview checks whether they run."""
TROUBLES: Final = ("stuck", "dead", "paused", "no-worker", "old")
"""What may be wrong with a queue, in the words of ``queue_status --check``."""


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """One queue at one moment of the database's clock."""

    queue: Queue
    """Its row, or an unsaved one: open."""
    counts: dict[str, Capped]
    """By state, each up to the cap."""
    oldest_ready: datetime | None
    """When its oldest ready message became due."""
    workers: int
    """Processes that beat and serve it."""
    threads: int
    streams: tuple[str, ...]
    """Those that a query on Spark runs now."""

    @property
    def name(self) -> str:
        """The queue's name."""
        return str(self.queue.name)

    @property
    def is_there(self) -> bool:
        """Whether it has a row, unfinished messages, workers or streams; a known queue may have none of them."""
        return not self.queue._state.adding or bool(self.workers or self.streams) or any(self.counts.values())

    @property
    def is_waiting(self) -> bool:
        """Whether it has messages that only a worker or a stream can move on."""
        return any(self.counts[state] for state in ("ready", "delayed", "waiting", "running", "stuck"))


@dataclass(frozen=True, slots=True)
class Overview:
    """Every queue that has messages, workers, streams that run, or a row of its own, by name."""

    at: datetime
    queues: list[QueueOverview]


def known_queues(session: DjangoSession) -> set[str]:
    """Return the names of the queues that an overview shows."""
    rows = Queue.objects.using(session.using).values_list("name", flat=True)
    return {*rows, *serving(session, clock(session.using)), *consuming(session), *queues_in_use(session)}


def unknown_queues(session: DjangoSession, names: Collection[str]) -> list[str]:
    """Return those of these names that no overview shows, and that this project doesn't declare.

    A consumer declares its queue, and so does ``QUEUES``: a new queue has no message yet. Where not all consumers can
    be imported, any queue may have one.
    """
    undeclared = [name for name in names if name not in conf.get("QUEUES") and has_consumer(name) is False]
    known = known_queues(session) if undeclared else set()
    return [name for name in undeclared if name not in known]


def overview(session: DjangoSession, names: Iterable[str] | None = None, *, cap: int = CAP) -> Overview:
    """Look at these queues (None: at all that are known). Nothing is locked, and each count has its own moment."""
    rows = Queue.objects.using(session.using).in_bulk()
    now = clock(session.using)
    serving_each, streams = serving(session, now), consuming(session)
    wanted = sorted({*rows, *serving_each, *streams, *queues_in_use(session)}) if names is None else list(names)
    found = depths(session, wanted, states=UNFINISHED, cap=cap)
    queues = []
    for name in wanted:
        threads = serving_each.get(name, [])
        queues.append(
            QueueOverview(
                queue=rows.get(name) or Queue(name=name),
                counts=found[name].counts,
                oldest_ready=to_utc(found[name].oldest_ready, session.connection),
                workers=len(threads),
                threads=sum(threads),
                streams=tuple(streams.get(name, ())),
            )
        )
    return Overview(now, queues)


def serving(session: DjangoSession, now: datetime) -> dict[str, list[int]]:
    """Return, by queue, the thread counts of the beating workers that serve it."""
    found: dict[str, list[int]] = {}
    rows = Worker.objects.using(session.using).filter(beating(now))
    for queues, threads in rows.values_list("queues", "threads"):
        for name in filter(None, queues.split(",")):
            found.setdefault(name, []).append(threads)
    return found


def consuming(session: DjangoSession) -> dict[str, list[str]]:
    """Return, by queue, the names of the consuming streams that a query on Spark runs now."""
    found: dict[str, list[str]] = {}
    begun = Stream.objects.using(session.using).filter(run__isnull=False).order_by("name")
    for name, queue in begun.values_list("name", "queue")[:MOST_STREAMS]:
        if is_running(session, name):
            found.setdefault(queue, []).append(name)
    return found


def until(end: datetime | None) -> str:
    """Say until when a pause lasts."""
    return _("until it is resumed") if end is None else _("until %(end)s") % {"end": f"{end:%Y-%m-%d %H:%M:%S} UTC"}


def troubles(
    each: QueueOverview, now: datetime, max_age: float | None = None, ignored: Collection[str] = ()
) -> list[str]:
    """Return what is wrong with a queue at a moment; ``max_age``: seconds that a ready message may wait."""
    is_old = (
        max_age is not None and each.oldest_ready is not None and now - each.oldest_ready > timedelta(seconds=max_age)
    )
    found = {
        "stuck": each.counts["stuck"] > 0,
        "dead": each.counts["dead"] > 0,
        "paused": each.queue.is_paused,
        "no-worker": each.is_waiting and not each.workers and not each.streams,
        "old": is_old,
    }
    return [name for name in TROUBLES if found[name] and name not in ignored]
