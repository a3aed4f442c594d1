"""How long to wait for work: a share of the time for which none has arrived; or until NOTIFY."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any, Final, Protocol

from django_dbqueue import conf
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.worker.thread_connections import discard, discard_all

FASTEST: Final = 0.01
SHARE: Final = 20
"""The next check comes after 1/SHARE of the time without work: that is how much later work may start."""
LATELY: Final = 10.0
"""Seconds without work after which the worker's idle poll, once a second, is enough."""
ENOUGH: Final = 2.0
COST_SHARE: Final = 10
"""An expensive check takes at most 1/COST_SHARE of the time."""

logger = logging.getLogger(__name__)


class Periodic(Protocol):
    """Something that the loop does from time to time, by the monotonic clock, in seconds."""

    def run(self, now: float) -> None:
        """Do what is due."""

    def until_next(self, now: float) -> float:
        """Return for how many seconds nothing will be due, if nothing arrives."""


class Pace:
    """When to check for work again, in seconds: soon after some has arrived, later the longer none has."""

    def __init__(self) -> None:
        self._worked_at = time.monotonic()
        self._costs: deque[float] = deque(maxlen=8)

    def worked(self) -> None:
        """Note that there was work."""
        self._worked_at = time.monotonic()

    def found_nothing(self, cost: float) -> None:
        """Note a check that took ``cost`` seconds and found nothing. The cheapest recent one counts: others waited."""
        self._costs.append(cost)

    @property
    def is_calm(self) -> bool:
        """Return whether the idle poll is enough."""
        return time.monotonic() - self._worked_at > LATELY

    def next(self) -> float:
        """Return the delay, less up to a quarter at random."""
        if self.is_calm:
            return ENOUGH
        idle = time.monotonic() - self._worked_at
        cost = min(self._costs, default=0.0)
        return max(FASTEST, idle / SHARE, cost * COST_SHARE) * random.uniform(0.75, 1.0)


class Backoff:
    """A delay in seconds that doubles from ``first`` to ``last`` until it is reset."""

    def __init__(self, first: float, last: float) -> None:
        self._first = first
        self._last = last
        self._next = first

    def reset(self) -> None:
        """Start again from ``first``."""
        self._next = self._first

    def next(self) -> float:
        """Return the delay, less up to a quarter at random, and double it."""
        delay, self._next = self._next, min(self._last, self._next * 2)
        return delay * random.uniform(0.75, 1.0)


class Listener(threading.Thread):
    """A thread that listens on PostgreSQL, over its own connection, and calls ``wake`` per queue with a new message."""

    def __init__(self, session: DjangoSession, queues: tuple[str, ...], wake: Callable[[], None]) -> None:
        super().__init__(name="dbqueue-listen", daemon=True)
        self._session = session
        self._queues = frozenset(queues)
        self._wake = wake
        self._over = threading.Event()
        self.hears = False
        """Whether a notice has arrived on this connection: some poolers let it listen, and send none."""
        self._reader, self._writer = os.pipe()

    @classmethod
    def start_where_possible(
        cls, session: DjangoSession, queues: tuple[str, ...], wake: Callable[[], None]
    ) -> Listener | None:
        """Start a listener if the database can notify, and the setting NOTIFY is on."""
        if not (session.server.notifies and conf.get("NOTIFY")):
            return None
        listener = cls(session, queues, wake)
        listener.start()
        return listener

    def stop(self) -> None:
        """Let the thread end."""
        self._over.set()
        self.relisten()

    def relisten(self) -> None:
        """Listen on a new connection: a demoted server keeps this one, and sends nothing on it."""
        os.write(self._writer, b".")

    def run(self) -> None:
        """Listen; after a failure, try again a little later (polling continues meanwhile)."""
        backoff = Backoff(0.1, 5.0)
        while not self._over.is_set():
            connection = self._session.connection
            try:
                self.hears = False
                with connection.cursor() as cursor:
                    cursor.execute("LISTEN django_dbqueue")
                backoff.reset()
                self._listen(connection.connection)
                discard(self._session.using)
            except Exception as error:
                self.hears = False
                logger.debug("the listener lost its connection: %s", error)
                discard(self._session.using)
                self._over.wait(backoff.next())
        discard_all()

    def _listen(self, raw: Any) -> None:
        """Sleep until the server, or another thread, sends something: it costs nothing while nothing is sent."""
        while True:
            payloads = {notify.payload for notify in raw.notifies(timeout=0)}
            self.hears = self.hears or bool(payloads)
            if not self._queues.isdisjoint(payloads):
                self._wake()
            if self._reader in wait([raw.fileno(), self._reader]):
                os.read(self._reader, 1)
                return
