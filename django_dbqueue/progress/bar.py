"""What the template tag shows: the state as the page is made, and the link that keeps it up to date."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_dbqueue.progress.how_far import how_far
from django_dbqueue.progress.links import DAY, followed_of, progress_url


def bar(subject: Any, *, label: str, expires_in: float | timedelta | None) -> dict[str, object]:
    """Return what the bar's template needs; ``seen`` is None if the flow or message is gone."""
    url = progress_url(subject, expires_in=DAY if expires_in is None else expires_in)
    return {"seen": how_far(followed_of(subject)), "url": url, "label": label}
