"""The database comes and goes: how a child's main thread meets its troubles."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import Error

from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.worker.pace import Backoff
from django_dbqueue.worker.thread_connections import discard

logger = logging.getLogger("django_dbqueue.worker")


class Trouble:
    """The latest trouble with the database. Each kind is logged once until all goes well."""

    def __init__(self, session: DjangoSession) -> None:
        self._session = session
        self._backoff = Backoff(0.05, 2.0)
        self._last = ""
        self.is_connected = False
        """Set by who connects: all is done that a new session needs."""

    @property
    def lasts(self) -> bool:
        """Return whether the last attempt failed."""
        return bool(self._last)

    def pause(self) -> float:
        """Return for how many seconds to wait before the next attempt."""
        return self._backoff.next()

    def spares(self, work: Callable[[], object]) -> bool:
        """Do it; if the database is in trouble, close the connection and return False, so that the caller retries."""
        try:
            work()
        except Error as error:
            if (trouble := " ".join(str(error).split())) != self._last:
                logger.warning("database trouble, retrying: %s (if it lasts, ask manage.py queue_doctor)", trouble)
            self.is_connected, self._last = False, trouble
            discard(self._session.using)
            return False
        if self._last:
            logger.info("the database answers again")
        self._last = ""
        self._backoff.reset()
        return True
