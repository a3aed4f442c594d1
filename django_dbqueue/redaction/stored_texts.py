"""Texts of ours that columns keep: stored in English, whoever acts, and translated when they are shown."""

from __future__ import annotations

import re
from typing import Final

from django.utils import translation
from django.utils.translation import gettext_noop

DROPPED: Final = gettext_noop("Dropped by %(user)s: %(reason)s")
CANCELLED: Final = gettext_noop("Cancelled by %(user)s: %(reason)s")
CANCELLED_WITHOUT_A_NAME: Final = gettext_noop("Cancelled: %(reason)s")
"""Its sender cancelled it, or somebody who gave no name."""
REJECTED: Final = gettext_noop("Rejected by %(user)s: %(reason)s")
EDITED: Final = gettext_noop("Sent anew by %(user)s with an edited payload.")
STOPPED: Final = gettext_noop("Stopped by %(user)s.")
FORBIDDEN: Final = gettext_noop("%(user)s may not do this any more.")

_PATTERNS: Final = {
    text: re.compile(re.sub(r"%\\\((\w+)\\\)s", r"(?P<\1>.*?)", re.escape(text)), re.DOTALL)
    for text in (DROPPED, CANCELLED, CANCELLED_WITHOUT_A_NAME, REJECTED, EDITED, STOPPED, FORBIDDEN)
}


def translated(stored: str) -> str:
    """Return a stored text for people to read: in their language if it is one of these, otherwise as it is."""
    for text, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(stored):
            return translation.gettext(text) % match.groupdict()
    return stored
