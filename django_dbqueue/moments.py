"""Moments as parameters of statements."""

from __future__ import annotations

from datetime import UTC, datetime


def to_column(moment: datetime, vendor: str) -> datetime | str:
    """Return an aware moment as a parameter for the queue's columns."""
    if vendor == "postgresql":
        return moment
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
