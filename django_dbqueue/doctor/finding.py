"""The result of examining one thing: what was found, whether it matters, and what to do about it."""

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
    """``found`` says what is, and what follows from it; ``do`` says what to do, or is '' if nothing need be done."""

    check: str = ""
    """The name of the check, which the runner fills in."""
    level: str
    found: str
    do: str = ""

    def is_at_least(self, level: str) -> bool:
        """Return whether it matters at least this much."""
        return LEVELS.index(self.level) >= LEVELS.index(level)


def fine(found: str) -> Finding:
    """Report that all is well."""
    return Finding(level=OK, found=found)


def note(found: str, do: str = "") -> Finding:
    """Report what is worth knowing, but not wrong."""
    return Finding(level=NOTE, found=found, do=do)


def warning(found: str, do: str) -> Finding:
    """Report what weakens a promise, or will slow the queue down."""
    return Finding(level=WARNING, found=found, do=do)


def problem(found: str, do: str) -> Finding:
    """Report what breaks a promise, or stops the queue."""
    return Finding(level=PROBLEM, found=found, do=do)
