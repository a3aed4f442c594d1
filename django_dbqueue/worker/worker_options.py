"""The command line's options, checked once and frozen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django_dbqueue.schedules.declarations import Plan

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

BATCH_BYTES: Final = 32 * 1024 * 1024
"""Bytes of payloads that a child fetches ahead at most, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of ``run_queue_worker``; ``lease`` (seconds) overrides consumers and settings.

    ``plans`` are the schedules that the settings and the consumers declared when they were read, at ``declared_at`` by
    the database's clock.
    """

    database: str
    queues: tuple[str, ...]
    declared_at: datetime
    plans: tuple[Plan, ...] = ()
    processes: int = 1
    threads: int = 1
    batch: int = 400
    batch_bytes: int = BATCH_BYTES
    lease: float | None = None
    grace: float = 25.0
    drain: bool = False
    max_messages: int | None = None

    @property
    def most_bytes(self) -> int:
        """Return the largest payload, in bytes, that is fetched ahead: a whole batch of them stays within its bound."""
        return self.batch_bytes // self.batch

    def share(self, index: int) -> int | None:
        """Return how many messages the child with this index may start at most (None: no limit)."""
        if self.max_messages is None:
            return None
        whole, rest = divmod(self.max_messages, self.processes)
        return whole + (1 if index < rest else 0)
