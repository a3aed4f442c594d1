"""What a look at one thing brought: what was found, whether it matters, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OK: Final = "ok"
NOTE: Final = "note"
WARNING: Final = "warning"
PROBLEM: Final = "problem"
LEVELS: Final = (OK, NOTE, WARNING, PROBLEM)
"""How much it matters, least first. A note is worth knowing; a problem breaks a promise, or stops the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``found`` says what is, and what follows of it; ``do`` what to do, or is '' where nothing need be done."""

    check: str = ""
    """The name of the check, which whoever runs it puts in."""
    level: str
    found: str
    do: str = ""

    def is_at_least(self, level: str) -> bool:
        """Whether it matters so much."""
        return LEVELS.index(self.level) >= LEVELS.index(level)


def fine(found: str) -> Finding:
    """Say that all is well."""
    return Finding(level=OK, found=found)


def note(found: str, do: str = "") -> Finding:
    """Say what is worth knowing, and is nothing wrong."""
    return Finding(level=NOTE, found=found, do=do)


def warning(found: str, do: str) -> Finding:
    """Say what weakens a promise, or will slow the queue down."""
    return Finding(level=WARNING, found=found, do=do)


def problem(found: str, do: str) -> Finding:
    """Say what breaks a promise, or stops the queue."""
    return Finding(level=PROBLEM, found=found, do=do)
