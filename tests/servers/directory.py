"""Where test data lives: in memory if there is room, and never longer than the process that made it."""

from __future__ import annotations

import fcntl
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PREFIX = "dbqueue-test-"
ROOM: Final = 2 * 1024**3
ROOM_FOR_THE_NIGHT: Final = 20 * 1024**3
"""Bytes that a server of ten million rows may fill, beside the others that run then."""
_LOCK = "in-use"


def roomy_directory(room: int = ROOM) -> Path:
    """A directory in memory if that many bytes of it are free, else on disk."""
    memory = Path("/dev/shm")
    if memory.is_dir() and min(shutil.disk_usage(memory).free, _available()) > room:
        return memory
    return Path(tempfile.gettempdir())


def _available() -> int:
    """Bytes of memory that programs can have: a file system in memory takes its own from them."""
    found = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


@contextmanager
def own_directory(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """A directory that is removed at the end; one that a killed run left behind is removed by the next.

    A lock says that the maker lives. It ends with the process, whatever ended that.
    """
    parent = parent or roomy_directory()
    _remove_abandoned(parent)
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-", dir=parent))
    with (path / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            if time.time() - path.stat().st_mtime < 60:
                continue  # its maker may not have locked it yet, or its server may still be stopping
            with (path / _LOCK).open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue  # in use, someone else's, or gone meanwhile
