"""What an operator wants to know of every queue at a glance: how deep it is, whether it is open, who serves it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import connections

from django_dbqueue.lifecycle.depths import CAP, UNFINISHED, Capped, depths
from django_dbqueue.lifecycle.ranges import queues_in_use
from django_dbqueue.models.fields import clock, to_utc
from django_dbqueue.models.queue import Queue
from django_dbqueue.models.worker import ALIVE_WITHIN, Worker


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """One queue at one moment of the database's clock."""

    queue: Queue
    """Its row, or one that was never saved: open."""
    counts: dict[str, Capped]
    """By state, each up to the cap."""
    oldest_ready: datetime | None
    """Since when its oldest ready message is due."""
    workers: int
    """Processes that beat, and serve it."""
    threads: int

    @property
    def name(self) -> str:
        """The queue's name."""
        return str(self.queue.name)

    @property
    def is_waiting(self) -> bool:
        """Whether it has messages that only a worker can move on."""
        return any(self.counts[state] for state in ("ready", "delayed", "running", "stuck"))


@dataclass(frozen=True, slots=True)
class Overview:
    """Every queue that has messages or that somebody said something about, by name."""

    at: datetime
    queues: list[QueueOverview]


def known_queues(using: str) -> list[str]:
    """Return the names of the queues that have messages, or a row of their own."""
    return sorted({*queues_in_use(using), *Queue.objects.using(using).values_list("name", flat=True)})


def overview(using: str, names: Iterable[str] | None = None, *, cap: int = CAP) -> Overview:
    """Look at these queues (None: at all that are known). Nothing is locked, and each count is of its own moment."""
    rows = {row.name: row for row in Queue.objects.using(using)}
    wanted = sorted({*rows, *queues_in_use(using)}) if names is None else list(names)
    now = clock(using)
    serving = _serving(using, now)
    found = depths(using, wanted, states=UNFINISHED, cap=cap)
    queues = []
    for name in wanted:
        threads = serving.get(name, [])
        queues.append(
            QueueOverview(
                queue=rows.get(name) or Queue(name=name),
                counts=found[name].counts,
                oldest_ready=to_utc(found[name].oldest_ready, connections[using]),
                workers=len(threads),
                threads=sum(threads),
            )
        )
    return Overview(now, queues)


def _serving(using: str, now: datetime) -> dict[str, list[int]]:
    """Return, by queue, the threads of each worker that beats and serves it."""
    found: dict[str, list[int]] = {}
    beating = Worker.objects.using(using).filter(beat_at__gte=now - ALIVE_WITHIN)
    for queues, threads in beating.values_list("queues", "threads"):
        for name in queues.split(","):
            found.setdefault(name, []).append(threads)
    return found
