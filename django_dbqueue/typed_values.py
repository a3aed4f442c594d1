"""Whole numbers, spans of time and sizes that people type: in options, command lines, searches and URLs."""

from __future__ import annotations

import re
from typing import Final

MAX_ID: Final = 2**63 - 1
"""The highest id that a row can have."""
_TYPED: Final = re.compile(r"-?[0-9]{1,19}\Z")
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_YEAR: Final = 366 * 86_400
_SIZE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([KMGT])(?:i?B)?\Z")
_POWERS: Final = {"K": 10, "M": 20, "G": 30, "T": 40}


def typed_whole(text: str, low: int, high: int) -> int | None:
    """Return the whole number that a text is, None if it is none within these bounds."""
    return number if _TYPED.match(text) and low <= (number := int(text)) <= high else None


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


def typed_size(text: str) -> int | None:
    """Return the bytes that a text means, as in 512M or 1.5GiB (units are powers of 1024); None if it means none."""
    if (found := _SIZE.match(text)) is None:
        return None
    return int(float(found[1]) * 2 ** _POWERS[found[2]])
