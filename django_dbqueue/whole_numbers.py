"""Whole numbers: given as values in settings and arguments, or typed in options, command lines, searches and URLs."""

from __future__ import annotations

import re
from typing import Final, TypeGuard

MAX_ID: Final = 2**63 - 1
"""The highest id that a row can have."""
_TYPED: Final = re.compile(r"-?[0-9]{1,19}\Z")


def is_whole(value: object, low: int, high: int) -> TypeGuard[int]:
    """Return whether a value is a whole number within these bounds; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def typed_whole(text: str, low: int, high: int) -> int | None:
    """Return the whole number that a text is, None if it is none within these bounds."""
    return number if _TYPED.match(text) and is_whole(number := int(text), low, high) else None
