"""Which queue may be meant by a name that none has."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue.consumers import registry

ALIKE: Final = 0.75
"""How much of both names must be the same: 'reports' is not meant by 'imports'."""


def near_queue(name: str, known: Iterable[str] | None = None) -> str | None:
    """Return the queue whose name is most like this one, which is none's; by default of those that have a consumer."""
    there = sorted(registry.registered() if known is None else known)
    near = [] if name in there else get_close_matches(name, there, n=1, cutoff=ALIKE)
    return near[0] if near else None


def did_you_mean(name: str, known: Iterable[str] | None = None) -> str:
    """Return the question whether that queue is meant, after a blank; '' if none is near."""
    near = near_queue(name, known)
    return "" if near is None else " " + _("Did you mean %(queue)r?") % {"queue": near}
