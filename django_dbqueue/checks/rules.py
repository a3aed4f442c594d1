"""What values of settings must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_dbqueue.envelope import LEAST_LEASE, MAX_SECONDS, is_whole

Rule = Callable[[object], str | None]
"""Returns what a value must be, if it isn't."""


def whole(low: int, high: int) -> Rule:
    """Ask for a whole number within bounds."""
    return lambda value: None if is_whole(value, low, high) else f"a whole number from {low:,} to {high:,}"


def seconds(*, above_zero: bool = False, or_none: bool = False) -> Rule:
    """Ask for a number of seconds."""

    def rule(value: Any) -> str | None:
        if value is None and or_none:
            return None
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if good and (LEAST_LEASE if above_zero else 0) <= value <= MAX_SECONDS:
            return None
        wanted = "a number of seconds" + (" above 0" if above_zero else ", 0 or more")
        return wanted + (", or None" if or_none else "")

    return rule


def of_type(kind: type | tuple[type, ...], words: str) -> Rule:
    """Ask for a value of a type, described in ``words``."""
    return lambda value: None if isinstance(value, kind) else words


def one_of(*words: str) -> Rule:
    """Ask for one of these words."""
    wanted = " or ".join(repr(word) for word in words)
    return lambda value: None if isinstance(value, str) and value in words else wanted
