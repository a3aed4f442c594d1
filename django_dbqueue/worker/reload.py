"""``run_queue_worker --reload``: a parent that restarts the worker when a file of the project has been saved.

Django's reloader finds what was saved. Its own way to restart, which ends a process where it stands, is for servers: a
worker has handlers running. So the worker is a process of its own here, which gets one SIGTERM for all that was saved
until it has ended, and its grace (promise P14); what runs longer is released uncharged. It is in a process group of its
own, so that Ctrl-C reaches it through its parent alone: a second signal would cut its handlers off.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

from django.apps import apps
from django.db import connections
from django.utils import autoreload

from django_dbqueue.consumers import registry
from django_dbqueue.worker.worker_options import EXIT_OK

PARENT: Final = "DBQUEUE_RELOADING_PARENT"
"""The environment variable by which a worker knows that this process restarts it; it holds the process's id."""
_ENDING: Final = tuple(each for each in signal.Signals if each.name in {"SIGINT", "SIGTERM", "SIGHUP"})
"""By name: Windows, where no worker runs but this module is imported, has no SIGHUP."""

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
        self._saved: list[Path] = []
        self._is_restarting = False
        """Whether the worker that runs was told to end because of a save."""
        self._is_ending = False

    def run(self) -> int:
        """Run until a signal ends it, or the worker ends by itself and well; return the worker's exit code."""
        before = {number: signal.signal(number, self._end) for number in _ENDING}
        reloader = _reloader()
        autoreload.file_changed.connect(self._note, sender=reloader)
        try:
            self._start()
            ticks = reloader.tick()
            while True:
                next(ticks)  # checks all files, and sleeps for a second
                self._restart_if_saved()
                if (code := self._code_at_the_end()) is not None:
                    return code
        finally:
            autoreload.file_changed.disconnect(self._note, sender=reloader)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self) -> None:
        self._saved, self._is_restarting = [], False
        self._worker = subprocess.Popen(
            autoreload.get_child_arguments(), env=os.environ | {PARENT: str(os.getpid())}, process_group=0
        )
        if self._is_ending:  # the signal came while it was being started
            self._worker.terminate()

    def _note(self, *, file_path: Path, **_: object) -> bool:
        self._saved.append(file_path)
        return True  # so that Django doesn't end this process

    def _restart_if_saved(self) -> None:
        if not self._saved or self._is_ending or self._is_restarting:
            return
        if self._worker is None:
            self._start()
        elif self._worker.poll() is None:
            logger.info("%s was saved: the worker restarts when its running handlers have ended", self._saved[0])
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
        if self._is_ending or not (code or self._saved or self._is_restarting):
            return code if code >= 0 else 128 - code  # a signal ended it before it had begun to listen
        if self._saved or self._is_restarting:
            self._start()
            return None
        logger.error("the worker ended with exit code %s; it starts again when a file of the project is saved", code)
        self._worker = None
        return None

    def _end(self, number: int, _frame: FrameType | None) -> None:
        """Pass a stop signal on, unless the worker has got its first one for a save."""
        is_first, self._is_ending = not self._is_ending, True
        if self._worker is not None and not (is_first and self._is_restarting):
            self._worker.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)


def _reloader() -> autoreload.StatReloader:
    """Return what watches all that was imported, and the files of the project's apps whether they could be or not."""
    with suppress(Exception):  # the worker says it
        registry.autodiscover()
    connections.close_all()
    reloader = autoreload.StatReloader()
    for app in apps.get_app_configs():
        path = Path(app.path)
        if not {"site-packages", "dist-packages"} & set(path.parts):
            reloader.watch_dir(path, "**/*.py")
    autoreload.autoreload_started.send(sender=reloader)  # templates and translations, too
    return reloader
