"""How much memory this process has, as ``ps`` and ``top`` show it."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

STATM: Final = Path("/proc/self/statm")


def resident_bytes(statm: Path = STATM) -> int:
    """Return this process's resident set (RSS) in bytes.

    Pages that it shares with its parent since the fork count, as in ``ps``, by which people choose a limit. They stay
    the same, so what is more than at the start is the process's own. Where there is no ``/proc``, it is the most that
    the process ever had, which never falls.
    """
    import resource  # here: Windows, where no worker runs but this module is imported, has none

    with suppress(OSError):
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def in_mebibytes(size: float) -> str:
    """Write a number of bytes for people."""
    return f"{size / 2**20:.1f} MiB"
