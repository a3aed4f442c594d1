"""When --drain has nothing left to wait for."""

from __future__ import annotations

from typing import Final

DRAIN_WAITS: Final = 60.0
"""Seconds within which a message that was begun during --drain must be due again for --drain to wait for it."""
MARGIN: Final = 0.05
"""Seconds by which the server's clock may be behind in calling a retry due."""


def is_drained(empty_at: float | None, retry_due: float) -> bool:
    """Return whether nothing was due when a child last checked, nor will be soon. Both are of the monotonic clock."""
    return empty_at is not None and empty_at > retry_due + MARGIN
