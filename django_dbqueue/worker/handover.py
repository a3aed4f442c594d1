"""What handler threads hand over to the main thread, and how it sleeps until there is enough to work on."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Pipe, wait
from typing import Final

from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import Verdict
from django_dbqueue.worker.holding import Holding

NEVER: Final = sys.maxsize


class Handover:
    """Deliveries whose handler has ended, with their verdict and duration in seconds; and the main thread's bell."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._finished: deque[tuple[Delivery, Verdict, float]] = deque()
        self._wake_at = NEVER
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._dozes = False
        self._heard, self._clapper = Pipe(duplex=False)
        for end in (self._heard, self._clapper):
            os.set_blocking(end.fileno(), False)

    def __len__(self) -> int:
        return len(self._finished)

    def post(self, delivery: Delivery, verdict: Verdict) -> None:
        """Hand over what has finished; wake the main thread only if it is waiting and there is enough."""
        self._finished.append((delivery, verdict, time.monotonic() - (delivery.started_at or 0.0)))
        if self._wake_at != NEVER and (len(self._finished) >= self._wake_at or not self._holding.shelf(delivery)):
            self.ring()

    def take_all(self) -> Iterator[tuple[Delivery, Verdict, float]]:
        """Yield what has finished, in that order, until nothing is left."""
        while self._finished:
            yield self._finished.popleft()

    def ring(self) -> None:
        """Wake the main thread (from a signal handler too: SimpleQueue.put is reentrant, so it can't deadlock)."""
        self._bell.put(None)
        if self._dozes:
            with suppress(BlockingIOError):
                os.write(self._clapper.fileno(), b".")

    def sleep(self, seconds: float, enough: int) -> None:
        """Sleep until ``enough`` have finished, the shelf is empty, or somebody rings.

        A thread that finishes one meanwhile either sees the wait, or is seen here before the sleep begins.
        """
        self._wake_at = enough
        if len(self._finished) < enough:
            with suppress(queue.Empty):
                self._bell.get(timeout=seconds)
        self._wake_at = NEVER
        self._unring()

    def doze(self, seconds: float, pipe: int) -> bool:
        """Sleep until somebody rings, or the pipe is readable; return whether somebody has rung."""
        self._dozes = True  # before the check: whoever rings after it, writes
        if self._bell.empty():
            wait([pipe, self._heard.fileno()], seconds)
        self._dozes = False
        with suppress(BlockingIOError):
            os.read(self._heard.fileno(), 512)
        return self._unring()

    def _unring(self) -> bool:
        """One wake-up is enough for all the rings; return whether there was any."""
        rings = 0
        with suppress(queue.Empty):
            while True:
                self._bell.get_nowait()
                rings += 1
        return rings > 0
