"""The answer to: why is it stuck?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Why:
    """The answer. ``code`` is one of a few words that programs may compare; the rest is for people."""

    code: str
    text: str
    evidence: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    """What may be done about it, named as the admin's verbs, the best first; ``resume`` is the queue's, and
    ``resume_group`` the group's."""
    advice: str = ""
    """What else can be done."""
    error: str | None = None
    """The last error as stored: it may quote the payload, so check ``redaction`` before showing it."""
    behind: int | None = None
    """The message of its group that has to end first."""
