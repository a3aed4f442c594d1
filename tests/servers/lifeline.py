"""A child that doesn't outlive the process that started it, however that ends; and whether a process lives."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable
from pathlib import Path

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, prctl(2)


def ends_with_its_starter(how: signal.Signals) -> Callable[[], None]:
    """For `Popen(preexec_fn=...)`: the kernel sends the child this signal when its starter is gone."""
    prctl = ctypes.CDLL(None).prctl

    def ask_kernel() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, int(how))

    return ask_kernel


def lives(pid: int) -> bool:
    """Whether it runs; in some containers nobody takes note of the end of an orphan."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
