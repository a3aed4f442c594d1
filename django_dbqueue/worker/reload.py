"""``run_queue_worker --reload``: a parent that restarts the worker when a file of the project has been saved.

Django's own way to restart, which ends a process where it stands, is for servers: a worker has handlers running. So the
worker is a process of its own here, which gets one SIGTERM for all that was saved until it has ended, and its grace
(promise P14); what runs longer is released uncharged. It is in a process group of its own, so that Ctrl-C reaches it
through its parent alone: a second signal would cut its handlers off.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

from django.db import connections
from django.utils.autoreload import get_child_arguments

from django_dbqueue.consumers import registry
from django_dbqueue.worker.aftermath import how_ended
from django_dbqueue.worker.late_signals import restore
from django_dbqueue.worker.watched_files import WatchedFiles
from django_dbqueue.worker.worker_options import EXIT_OK

PARENT: Final = "DBQUEUE_RELOADING_PARENT"
"""The environment variable by which a worker knows that this process restarts it; it holds the process's id."""
_ENDING: Final = tuple(each for each in signal.Signals if each.name in {"SIGINT", "SIGTERM", "SIGHUP"})
"""By name: Windows, where no worker runs but this module is imported, has no SIGHUP."""
_CHECK: Final = 1.0
"""Seconds between two checks of all files; a worker's end is noticed at once."""

logger = logging.getLogger("django_dbqueue.worker")
Progress = Callable[[dict[str, int]], None]


def is_reloaded() -> bool:
    """Return whether this process is a worker that its parent restarts."""
    return PARENT in os.environ


def ends_with_its_parent(progress: Progress) -> Progress:
    """Stop the worker once its parent is gone, killed maybe: nobody would restart it, or pass it a Ctrl-C."""
    parent, stopped = int(os.environ[PARENT]), False

    def show(totals: dict[str, int]) -> None:
        nonlocal stopped
        if not stopped and os.getppid() != parent:
            stopped = True
            os.kill(os.getpid(), signal.SIGTERM)
        progress(totals)

    return show


class Reloading:
    """A parent of one worker at a time, which it starts again after each save."""

    def __init__(self) -> None:
        self._worker: subprocess.Popen[bytes] | None = None
        self._saved: Path | None = None
        self._is_restarting = False
        """Whether the worker that runs was told to end because of a save."""
        self._is_ending = False

    def run(self) -> int:
        """Run until a signal ends it, or the worker ends by itself and well; return the worker's exit code."""
        heard = [number for number in _ENDING if number != signal.SIGHUP or not _has_nohup()]
        before: dict[int, Any] = {number: signal.signal(number, self._end) for number in heard}
        try:
            _import_consumers()
            files = WatchedFiles()
            if not self._is_ending:
                self._start()
            while (code := self._code_at_the_end()) is None:
                self._wait()
                self._saved = files.saved() or self._saved
                self._restart_if_saved()
            return code
        finally:
            restore(before)

    def _start(self) -> None:
        self._saved, self._is_restarting = None, False
        self._worker = subprocess.Popen(
            get_child_arguments(),
            env=os.environ | {PARENT: str(os.getpid())},
            stdin=subprocess.DEVNULL,  # whoever reads a terminal from another process group stands still
            process_group=0,
        )
        if self._is_ending:  # the signal came while it was being started
            self._worker.terminate()

    def _wait(self) -> None:
        if self._worker is None:
            time.sleep(_CHECK)
            return
        with suppress(subprocess.TimeoutExpired):
            self._worker.wait(_CHECK)

    def _restart_if_saved(self) -> None:
        if not self._saved or self._is_ending or self._is_restarting:
            return
        if self._worker is None:
            self._start()
        elif self._worker.poll() is None:
            what = "was saved" if self._saved.exists() else "was removed"
            logger.info("%s %s: the worker restarts when its running handlers have ended", self._saved, what)
            self._stop(self._worker)

    def _stop(self, worker: subprocess.Popen[bytes]) -> None:
        """Tell the worker to end, unless a signal does so at this very moment: two would cut its handlers off."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            if not self._is_ending:
                self._is_restarting = True
                worker.terminate()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)

    def _code_at_the_end(self) -> int | None:
        """Return the exit code if all is over; start a worker that ended for a save, and leave a broken one alone."""
        if self._worker is None:
            return EXIT_OK if self._is_ending else None
        code = self._worker.poll()
        if code is None:
            return None
        if self._is_ending and code == -signal.SIGTERM:  # before it had begun to listen, so it had begun nothing
            return EXIT_OK
        if self._is_ending or not (code or self._saved or self._is_restarting):
            return code if code >= 0 else 128 - code
        if self._saved or self._is_restarting:
            self._start()
            return None
        logger.error("the worker ended with %s; it starts again when a file of the project is saved", how_ended(code))
        self._worker = None
        return None

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        """Tell the worker to end, unless it has got its first signal for a save: by SIGTERM, whichever came."""
        is_first, self._is_ending = not self._is_ending, True
        if self._worker is not None and not (is_first and self._is_restarting):
            self._worker.terminate()


def _import_consumers() -> None:
    """Import what the worker will, so that it is watched; what can't be imported the worker reports."""
    with suppress(Exception):
        registry.autodiscover()
    connections.close_all()


def _has_nohup() -> bool:
    return signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
