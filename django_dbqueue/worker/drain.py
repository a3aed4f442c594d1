"""When --drain has nothing left to wait for."""

from __future__ import annotations

import time
from typing import Final

DRAIN_WAITS: Final = 60.0
"""Maximum delay, in seconds, of a retry caused during --drain for --drain to wait for it."""
MARGIN: Final = 0.05
"""Seconds by which the server's clock may be behind in calling a retry due."""


def is_drained(empty_at: float | None, retry_due: float) -> bool:
    """Return whether nothing was due when a child last checked, nor will be soon. Both are of the monotonic clock."""
    if empty_at is None:
        return False
    waits_until = retry_due + MARGIN
    return empty_at > waits_until or waits_until > time.monotonic() + DRAIN_WAITS
