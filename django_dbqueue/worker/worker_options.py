"""The command line's options, checked once and frozen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from django_dbqueue.schedules.declarations import Plan
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.settable.option_table import MAX_BATCH
from django_dbqueue.states.counts import counted

EXIT_OK: Final = 0
"""Stopped when told to, or drained, or --max-messages reached; nothing was cut off."""
EXIT_FAILED: Final = 1
"""Could not start, or its children died again and again before they started a message."""
EXIT_CUT_OFF: Final = 3
"""Stopped, but handlers had to be cut off at the end of --grace or by a second signal."""
EXIT_FORCED: Final = 4
"""Ended at once by a third signal; what was held is released when its leases expire."""
EXIT_REPLACE: Final = 75
"""A child's own: a handler hit its timeout, so its thread can't be used again."""
EXIT_STOPPED: Final = 76
"""A child's own: it was told to stop. If not by its supervisor, a signal came from elsewhere."""
EXIT_RECYCLED: Final = 77
"""A child's own: it had reached a limit of its own, and all that it began is settled."""
EXIT_REFUSED: Final = 78
"""A child's own: it had reached --child-max-rss before its first message."""

BATCH_BYTES: Final = 32 * 1024 * 1024
"""Bytes of payloads that a child fetches ahead at most, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of ``run_queue_worker``; ``lease`` (seconds) overrides consumers and settings.

    ``plans`` are the schedules that the settings and the consumers declared when they were read, at ``declared_at`` by
    the database's clock.
    """

    session: DjangoSession
    queues: tuple[str, ...]
    declared_at: datetime
    plans: tuple[Plan, ...] = ()
    processes: int = 1
    threads: int = 1
    concurrency: int = 0
    """How many messages of async consumers a child runs at once; 0 if there are none."""
    largest_batch: int = 0
    """How many messages a handler gets at once at most; 0 if none gets a list."""
    batch: int = 400
    batch_bytes: int = BATCH_BYTES
    lease: float | None = None
    grace: float = 25.0
    drain: bool = False
    max_messages: int | None = None
    child_max_messages: int | None = None
    child_max_rss: int | None = None
    """Bytes."""
    idle_interval: float | None = None
    """Seconds between the questions of all workers that have nothing to do."""
    liveness_file: Path | None = None
    """What is touched while every child's loop turns."""
    is_reloaded: bool = False
    """Whether ``--reload`` stops it at each save: what runs longer than ``grace`` is then released uncharged."""

    @property
    def size(self) -> str:
        """Say how many processes, threads and coroutines there are."""
        threads = f"{counted(self.processes, 'process', 'processes')} of {counted(self.threads, 'thread')}"
        return f"{threads} and {counted(self.concurrency, 'coroutine')}" if self.concurrency else threads

    @property
    def recycles(self) -> bool:
        """Return whether children are recycled."""
        return self.child_max_messages is not None or self.child_max_rss is not None

    @property
    def most_bytes(self) -> int:
        """Return the largest payload, in bytes, that is fetched ahead: all that is held stays within its bound."""
        return self.batch_bytes // self.most_held

    @property
    def most_async(self) -> int:
        """Return how many messages of async consumers a child holds at most, begun and fetched ahead."""
        return self.batch + self.concurrency if self.concurrency else 0

    @property
    def most_listed(self) -> int:
        """Return how many messages of consumers that get lists a child holds at most: two full lists, or ``batch``."""
        return max(self.batch, min(MAX_BATCH, 2 * self.largest_batch)) if self.largest_batch else 0

    @property
    def most_held(self) -> int:
        """Return how many messages a child holds at most."""
        return self.batch + self.most_listed + self.most_async

    @property
    def slots(self) -> int:
        """Return for how many messages that have begun a child's board needs room."""
        return self.most_held + self.threads

    def share(self, index: int) -> int | None:
        """Return how many messages the child with this index may start at most (None: no limit)."""
        if self.max_messages is None:
            return None
        whole, rest = divmod(self.max_messages, self.processes)
        return whole + (1 if index < rest else 0)
