"""Errors are mailed to ADMINS by a thread of its own: a mail server that is slow, or gone, stops no message."""

from __future__ import annotations

import logging
import os
import queue
import threading
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
    """Hands records to the handlers that mail them, in a thread that lives from a record to the next flush."""

    def __init__(self, mailers: Sequence[logging.Handler]) -> None:
        super().__init__(min(each.level for each in mailers))
        self._mailers = mailers
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(MOST)
        self._thread: threading.Thread | None = None
        self._is_full = False

    def emit(self, record: logging.LogRecord) -> None:
        """Let it be mailed, unless too many wait."""
        if self._process != os.getpid():  # what waited at the fork is mailed by the process where it was logged
            self._begin()
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            if not self._is_full:
                self._is_full = True
                logger.warning("%s mails to ADMINS wait: what is logged until they are sent is not mailed", MOST)
            return
        self._is_full = False
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._mail, name="dbqueue-mails", daemon=True)
            self._thread.start()

    def flush(self) -> None:
        """Wait for what is to be mailed; a process that is about to fork has no thread of ours then."""
        with self.lock or threading.Lock():
            thread, self._thread = self._thread, None
            if thread is None or self._process != os.getpid():
                return
            with suppress(queue.Full):
                self._waiting.put(None, timeout=WITHIN)
                thread.join(WITHIN)

    def _mail(self) -> None:
        while (record := self._waiting.get()) is not None:
            for each in self._mailers:
                with suppress(Exception):  # the log has it, and no mail is worth a worker
                    if record.levelno >= each.level:
                        each.handle(record)
        connections.close_all()  # a backend may keep its mails in a table
