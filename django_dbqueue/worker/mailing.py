"""Errors are mailed to ADMINS by a thread of its own: a mail server that is slow, or gone, stops no message."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from django.db import connections

MOST: Final = 100
"""How many mails may wait in a process. What comes then isn't mailed; the log has it all the same."""
WITHIN: Final = 2.0
"""Seconds that a process waits for its mails to be sent, before it ends or forks."""

logger = logging.getLogger("django_dbqueue.worker")


class MailingHandler(logging.Handler):
    """Hands records to the handlers that mail them, in a thread that lives while there are some."""

    def __init__(self, mailers: Sequence[logging.Handler]) -> None:
        super().__init__(min(each.level for each in mailers))
        self.mailers = mailers
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._waiting: deque[logging.LogRecord] = deque()
        self._thread: threading.Thread | None = None
        self._is_full = False

    def emit(self, record: logging.LogRecord) -> None:
        """Let it be mailed, unless too many wait. ``handle`` holds the handler's lock meanwhile."""
        if self._process != os.getpid():  # what waited at the fork is mailed by the process where it was logged
            self._begin()
        if len(self._waiting) < MOST:
            self._waiting.append(record)
            self._is_full = False
        elif not self._is_full:
            self._is_full = True
            logger.warning("%s mails to ADMINS wait: what is logged until they are sent is not mailed", MOST)
        self._start()

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._mail, name="dbqueue-mails", daemon=True)
            with suppress(RuntimeError, MemoryError):  # no room for it now: the next record, or the end, tries again
                thread.start()
                self._thread = thread

    def flush(self) -> None:
        """Wait for what is to be mailed; a process that is about to fork has no thread of ours then."""
        if self._process != os.getpid():
            return
        self.acquire()
        try:
            if self._waiting:
                self._start()
            thread = self._thread
        finally:
            self.release()
        if thread is not None:
            thread.join(WITHIN)

    def _mail(self) -> None:
        while (record := self._next()) is not None:
            for each in self.mailers:
                with suppress(Exception):  # the log has it, and no mail is worth a worker
                    if record.levelno >= each.level:
                        each.handle(record)

    def _next(self) -> logging.LogRecord | None:
        """Return what is to be mailed next; None, once and for all, if nothing is."""
        self.acquire()
        try:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
        finally:
            self.release()
        with suppress(Exception):
            connections.close_all()  # a backend may keep its mails in a table
        return None
