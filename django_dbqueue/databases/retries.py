"""Starting a transaction again: after an error that is likely to pass, or because one of ours asks for it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

Result = TypeVar("Result")

ATTEMPTS: Final = 8
SECONDS: Final = 5.0
"""Seconds since the first attempt began, after which no other begins: each may wait as long as the server allows."""


class StartAgain(Exception):
    """Another transaction changed what ours had read before ours wrote it: start ours again."""


def again(
    work: Callable[[], Result],
    passing: Callable[[Exception], bool],
    *,
    within: float = SECONDS,
    tried: int = 0,
    began: float | None = None,
) -> Result:
    """Run ``work``, up to eight times, with jitter, while its errors are transient; start no try after ``within``.

    A caller that has run it already says how often (``tried``), and when it first did (``began``, monotonic).
    """
    began = time.monotonic() if began is None else began
    for attempt in range(tried, ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0.2, 1.0) * 0.01 * 2 ** (attempt - 1))
        try:
            return work()
        except Exception as error:
            if attempt == ATTEMPTS - 1 or not passing(error) or time.monotonic() - began >= within:
                raise
    raise AssertionError("unreachable")  # pragma: no cover
