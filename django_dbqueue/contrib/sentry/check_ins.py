"""Check-ins of schedules: one for each due time, whichever worker runs it and however often it starts over.

The check-in's id follows from the schedule's name and the due time, so what is sent again for a due time, by a worker
that took over, is the same check-in.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from sentry_sdk.crons import capture_checkin

from django_dbqueue.codecs import decode_headers
from django_dbqueue.exceptions import DBQueueError, UndecodableMessage
from django_dbqueue.schedules.declarations import DUE_HEADER, NAME_HEADER, RUN_HEADER

if TYPE_CHECKING:
    from sentry_sdk._types import MonitorConfig

MAX_SLUG: Final = 50
_QUOTED: Final = f'"{NAME_HEADER}"'
_OTHERS: Final = re.compile(r"[^a-z0-9_-]+")
_SPACE: Final = uuid.UUID("6f2b8a52-4f0c-5a55-9a3b-0d6f7a1d6c11")

Status = Literal["in_progress", "ok", "error"]


class CheckIn(NamedTuple):
    """The check-in of one due time of a schedule."""

    schedule: str
    due: str

    @property
    def id(self) -> str:
        """32 hexadecimal digits."""
        return uuid.uuid5(_SPACE, f"{self.schedule}\0{self.due}").hex

    def send(self, status: Status, seconds: float | None = None) -> None:
        """Send it; its first status creates or updates the monitor."""
        config = monitor_config(self.schedule) if status == "in_progress" else None
        capture_checkin(slug_of(self.schedule), self.id, status, seconds, config)


def check_in_of(headers_text: str | None) -> CheckIn | None:
    """Return the check-in of a message that a schedule sent at a due time; None of any other."""
    if headers_text is None or _QUOTED not in headers_text:
        return None
    try:
        headers: Mapping[str, Any] = decode_headers(headers_text)
    except UndecodableMessage:
        return None
    name, due = headers.get(NAME_HEADER), headers.get(DUE_HEADER)
    if RUN_HEADER in headers or not (isinstance(name, str) and isinstance(due, str)):
        return None
    return CheckIn(name, due)


def slug_of(schedule: str) -> str:
    """Return the monitor's slug: the schedule's name, if Sentry can take it, else one that is as unique."""
    slug = _OTHERS.sub("-", schedule.lower())
    if slug == schedule and len(slug) <= MAX_SLUG and not slug.isdecimal():
        return slug
    return f"{slug[: MAX_SLUG - 9]}-{sha256(schedule.encode()).hexdigest()[:8]}"


@cache
def monitor_config(schedule: str) -> MonitorConfig | None:
    """Return what Sentry is to know of the monitor; None if it isn't declared here, or by the second."""
    from django_dbqueue.consumers import registry

    try:
        plans = registry.plans()
    except DBQueueError:  # this process runs no schedules
        return None
    for plan in plans:
        if plan.name == schedule and len(plan.cron.expression.split()) == 5:
            return {
                "schedule": {"type": "crontab", "value": plan.cron.expression},
                "timezone": plan.cron.timezone,
            }
    return None
