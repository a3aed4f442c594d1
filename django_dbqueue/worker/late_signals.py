"""Stop signals that arrive when a command's work is over: they don't take the place of its exit code.

With its own handlers removed, a process still has to print, flush, close sessions and be taken down by Python. A
signal that arrives meanwhile would end it as if nothing had been settled.
"""

from __future__ import annotations

import atexit
import signal
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
OVERSTAY: Final = 5.0
"""Seconds in which a process whose work is over ends by itself. One that lives on hangs, and a signal may end it."""

_is_ending: list[bool] = []


class Unheard:
    """A handler that does nothing for some seconds, and then leaves signals to the handler before it."""

    def __init__(self, before: Any, *, seconds: float = OVERSTAY) -> None:
        self._before: Any = before._before if isinstance(before, Unheard) else before
        self._until = time.monotonic() + seconds

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if time.monotonic() > self._until:
            signal.signal(number, signal.SIG_DFL if self._before is None else self._before)
            signal.raise_signal(number)


def ends_with_its_command() -> None:
    """Note that this process ends with the command that it is about to run, so that nobody needs its handlers back."""
    if not _is_ending:
        _is_ending.append(True)
        atexit.register(_ignore)


def restore(handlers: Mapping[int, Any]) -> None:
    """Restore the handlers from before, or hear no signal any more if this process is about to end."""
    for number, handler in handlers.items():
        is_ignored = handler == signal.SIG_IGN
        signal.signal(number, Unheard(handler) if _is_ending and not is_ignored else handler)


def hear_no_more() -> None:
    """Hear no signal any more if this process is about to end."""
    restore({number: signal.getsignal(number) for number in SIGNALS})


def _ignore() -> None:
    """Ignore signals by the system's own means: Python takes down its handlers before it ends."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
