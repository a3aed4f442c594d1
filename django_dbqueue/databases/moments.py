"""Moments as parameters of statements."""

from __future__ import annotations

from datetime import UTC, datetime

from django_dbqueue.databases import terms_of


def to_column(moment: datetime, vendor: str) -> datetime | str:
    """Return an aware moment as a parameter for the queue's columns."""
    if terms_of(vendor).has_zones:
        return moment
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def as_text(moment: str | datetime) -> str:
    """Return a moment, as the cursor returned it, as a parameter for the columns it is compared with."""
    return moment if isinstance(moment, str) else str(moment.isoformat(sep=" ", timespec="microseconds"))
