"""Whole numbers that are typed in options, command lines, searches and URLs."""

from __future__ import annotations

import re
from typing import Final

MAX_ID: Final = 2**63 - 1
"""The highest id that a row can have."""
_TYPED: Final = re.compile(r"-?[0-9]{1,19}\Z")


def typed_whole(text: str, low: int, high: int) -> int | None:
    """Return the whole number that a text is, None if it is none within these bounds."""
    return number if _TYPED.match(text) and low <= (number := int(text)) <= high else None
