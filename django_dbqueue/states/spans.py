"""How long something lasts, for people."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def span(length: timedelta) -> str:
    """Return a duration in its two largest units."""
    seconds = max(0, int(length.total_seconds()))
    parts: list[str] = []
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])
