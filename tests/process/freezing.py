"""Stops processes (SIGSTOP) where none of them holds SQLite's write lock: with it, all who write would stand still."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

from tests.process.conftest import wait_until
from tests.stepper.sessions import WriteLock


def freeze(*pids: int) -> None:
    """Stop these processes; return when they stand still. SIGCONT lets them go on."""
    with closing(WriteLock()) as lock:
        wait_until(lambda: _stand_still(pids, lock), "processes that stand still, and hold no write lock")


def freeze_group(group: int) -> None:
    """Stop all processes of this group."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    freeze(*(pid for pid in pids if _is_in(group, pid)))


def _stand_still(pids: tuple[int, ...], lock: WriteLock) -> bool:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(_is_stopped(pid) for pid in pids), "them to stand still")
    if lock.is_held():
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        return False
    return True


def _is_in(group: int, pid: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return False


def _is_stopped(pid: int) -> bool:
    return "\nState:\tT" in Path(f"/proc/{pid}/status").read_text()
