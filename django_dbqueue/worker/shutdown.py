"""Stop signals as a context: the first asks, the second insists, the third ends the process. And a child's own end."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from django_dbqueue.worker import last_words
from django_dbqueue.worker.late_signals import SIGNALS, restore
from django_dbqueue.worker.worker_options import EXIT_FORCED

logger = logging.getLogger("django_dbqueue.worker")


class StopSignals:
    """A counter of stop signals that makes ``fileno()`` readable at each, so that a wait ends at once."""

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[int, Any] = {}
        self._process = os.getpid()

    def __enter__(self) -> StopSignals:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup)
        restore(self._before)
        os.close(self._reader)
        os.close(self._writer)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._reader

    def clear(self) -> None:
        """Discard what was written, so that the next wait blocks."""
        try:
            while os.read(self._reader, 512):
                pass
        except BlockingIOError:
            pass

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a child that was just forked: its parent repeats what it wants
            return
        self.received += 1
        if self.received >= 3:
            os._exit(EXIT_FORCED)  # no last words: whom it interrupts may hold their locks


def end_within(seconds: float, code: int) -> None:
    """End this process by then: it waits for threads and processes that handlers left running, maybe forever."""

    def end() -> None:
        threads = set(threading.enumerate()) - {threading.main_thread(), threading.current_thread()}
        processes = multiprocessing.active_children()
        left = [thread.name for thread in threads] + [process.name for process in processes]
        logger.warning(
            "exiting although handlers left something running: %s", ", ".join(left) or "processes that they forked"
        )
        for process in processes:
            process.kill()
        last_words.flush()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
