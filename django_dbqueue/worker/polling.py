"""How long to wait for work: from 10 ms to a second, doubled while nothing comes, with jitter; or until NOTIFY."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Any, Final

from django.db import connections

from django_dbqueue import conf
from django_dbqueue.databases import dialect_of
from django_dbqueue.worker.sessions import discard, discard_all

FASTEST: Final = 0.01
SLOWEST: Final = 1.0

logger = logging.getLogger(__name__)


class Backoff:
    """A delay in seconds that doubles from ``first`` to ``last`` until it is reset."""

    def __init__(self, first: float = FASTEST, last: float = SLOWEST) -> None:
        self._first = first
        self._last = last
        self._next = first

    def reset(self) -> None:
        """Begin anew."""
        self._next = self._first

    def next(self) -> float:
        """Return the delay, less up to a quarter at random, and double it."""
        delay, self._next = self._next, min(self._last, self._next * 2)
        return delay * random.uniform(0.75, 1.0)


class Listener(threading.Thread):
    """Listens on PostgreSQL, on a connection of its own, and calls ``wake`` for each queue that got a message."""

    def __init__(self, using: str, queues: tuple[str, ...], wake: Callable[[], None]) -> None:
        super().__init__(name="dbqueue-listen", daemon=True)
        self._using = using
        self._queues = frozenset(queues)
        self._wake = wake
        self._over = threading.Event()

    @classmethod
    def start_where_possible(cls, using: str, queues: tuple[str, ...], wake: Callable[[], None]) -> Listener | None:
        """Start one if the database can notify and the setting NOTIFY is on."""
        if not (dialect_of(connections[using]).notifies and conf.get("NOTIFY")):
            return None
        listener = cls(using, queues, wake)
        listener.start()
        return listener

    def stop(self) -> None:
        """Let the thread end within half a second."""
        self._over.set()

    def run(self) -> None:
        """Listen; after a failure, again a little later (polling goes on meanwhile)."""
        backoff = Backoff(0.1, 5.0)
        while not self._over.is_set():
            connection: Any = connections[self._using]
            try:
                with connection.cursor() as cursor:
                    cursor.execute("LISTEN django_dbqueue")
                backoff.reset()
                self._listen(connection.connection)
            except Exception as error:
                logger.debug("the listener lost its connection: %s", error)
                discard(self._using)
                self._over.wait(backoff.next())
        discard_all()

    def _listen(self, raw: Any) -> None:
        while not self._over.is_set():
            for notify in raw.notifies(timeout=0.5, stop_after=1):
                if notify.payload in self._queues:
                    self._wake()
