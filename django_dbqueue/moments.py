"""Moments as parameters of statements; moments and spans of time as people type them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_YEAR: Final = 366 * 86_400
UNREAD = "_unread"
"""The attribute under which a claimed message keeps its moments, by attribute, as they were read, until asked."""


def to_column(moment: datetime, vendor: str) -> datetime | str:
    """Return an aware moment as a parameter for the queue's columns."""
    if vendor == "postgresql":
        return moment
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def as_text(moment: str | datetime) -> str:
    """Return a moment, as the cursor returned it, as a parameter for the columns it is compared with."""
    return moment if isinstance(moment, str) else str(moment.isoformat(sep=" ", timespec="microseconds"))


def typed_span(text: str) -> float | None:
    """Return the seconds that a text means, as in 90, 90s, 15m, 12h, 7d or 2w; None if it means none.

    The number before the unit is one from 0 to the seconds of a year.
    """
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "s")
    try:
        count = float(number)
    except ValueError:
        return None
    return count * _UNITS[unit] if 0 <= count <= _YEAR else None
