"""The file by which a probe sees that a worker works: its time is when the slowest child's loop turned last.

Each child notes its turns on its board, in its main thread; the heartbeat, which beats while that thread hangs, doesn't
count. A database that is away stops no loop, so it has no worker restarted.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from django_dbqueue.worker.board import Board, Retirement

logger = logging.getLogger("django_dbqueue.worker")


class LivenessFile:
    """The file at ``path``; None: nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._has_failed = False

    def begin(self) -> None:
        """Create it, or set its time; OSError if that is impossible, or if it is a directory, whose time others set."""
        if self._path is None:
            return
        if self._path.is_dir():
            what = "its name is empty, or that of" if self._path == Path() else f"{str(self._path)!r} is"
            raise IsADirectoryError(f"{what} a directory; name a file")
        self._path.touch()

    def show(self, boards: Iterable[Board]) -> None:
        """Set its time to that of the last turn of the child that turned least recently.

        One that was recycled turns no more, and may still wait for what its handlers left running.
        """
        if self._path is None:
            return
        turning = (board for board in boards if board.retirement is not Retirement.HAS_ENDED)
        turned_at = min((board.turned_at for board in turning), default=None)
        if turned_at is None:  # no child is running, and the file says since when
            return
        moment = time.time() - (time.monotonic() - turned_at)
        try:
            self._path.touch()  # somebody may have removed it
            os.utime(self._path, (moment, moment))
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                logger.error("can't touch the liveness file: %s", error)
            self._has_failed = True

    def end(self) -> None:
        """Remove it: whatever probes it now is to find no worker."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()
