"""For workers on a machine that has no room for another process, as long as a file is there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tests.settings import *  # noqa: F403

_fork = os.fork


def _fork_if_there_is_room() -> int:
    if Path(os.environ["DBQUEUE_TEST_FULL"]).exists():
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return _fork()


os.fork = _fork_if_there_is_room
