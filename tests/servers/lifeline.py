"""A child that doesn't outlive the process that started it, however that ends."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, prctl(2)


def ends_with_its_starter(how: signal.Signals) -> Callable[[], None]:
    """For `Popen(preexec_fn=...)`: the kernel sends the child this signal when its starter is gone."""
    prctl = ctypes.CDLL(None).prctl

    def ask_kernel() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, int(how))

    return ask_kernel
