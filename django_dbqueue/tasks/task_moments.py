"""Moments of tasks: reckoned in UTC, and shown as Django shows them, which without ``USE_TZ`` is naive and local.

A naive moment in the hour that the clocks repeat says by its ``fold`` which of the two it is. Arithmetic
forgets that.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload

from django.conf import settings
from django.utils import timezone


def now() -> datetime:
    """Return this moment in UTC."""
    return timezone.now().astimezone(UTC)  # Python takes a naive one for the process's local time, which it is


def aware(moment: datetime) -> datetime:
    """Return a moment with its zone; a naive one is in the current zone."""
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)


@overload
def as_django_shows(moment: datetime) -> datetime: ...


@overload
def as_django_shows(moment: None) -> None: ...


def as_django_shows(moment: datetime | None) -> datetime | None:
    """Return an aware moment as Django's own code would: without ``USE_TZ`` naive, in the current zone."""
    return moment if moment is None or settings.USE_TZ else timezone.make_naive(moment)
