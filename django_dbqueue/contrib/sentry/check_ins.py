"""Check-ins of schedules: one for each due time, whichever worker runs it and however often it starts over.

The check-in's id follows from the schedule's name and the due time, so what is sent again for a due time, by a worker
that took over, is the same check-in.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from django.db import Error, connections
from sentry_sdk.crons import capture_checkin

from django_dbqueue.codecs import decode_headers
from django_dbqueue.envelope import QUEUE_NAME
from django_dbqueue.exceptions import DBQueueError, UndecodableMessage
from django_dbqueue.schedules.declarations import DUE_HEADER, NAME_HEADER, RUN_HEADER

if TYPE_CHECKING:
    from sentry_sdk._types import MonitorConfig

logger = logging.getLogger("django_dbqueue.hooks")

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

    @property
    def is_declared(self) -> bool:
        """Whether this project declares its schedule."""
        return self.schedule in declared()

    def begin(self, using: str) -> None:
        """Send that its handler begins, which creates or updates the monitor; its message is in this database."""
        self.send("in_progress", config=monitor_config(self.schedule, using))

    def send(self, status: Status, *, seconds: float | None = None, config: MonitorConfig | None = None) -> None:
        """Send a status of it."""
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


def monitor_config(schedule: str, using: str) -> MonitorConfig | None:
    """Return what Sentry is to know of the monitor; None if its schedule isn't known, or is by the second.

    What isn't declared here is read from its row each time: operators add schedules, and change and remove them.
    """
    found = declared().get(schedule) or _in_its_row(schedule, using)
    if found is None or len(found[0].split()) != 5:
        return None
    return {"schedule": {"type": "crontab", "value": found[0]}, "timezone": found[1]}


@cache
def declared() -> Mapping[str, tuple[str, str]]:
    """Return the cron expression and the time zone of each schedule that this project declares, by name."""
    from django_dbqueue.consumers import registry

    try:
        return {plan.name: (plan.cron.expression, plan.cron.timezone) for plan in registry.plans()}
    except DBQueueError:  # this process runs no schedules
        return {}


def _in_its_row(schedule: str, using: str) -> tuple[str, str] | None:
    from django_dbqueue.models import Schedule

    if QUEUE_NAME.fullmatch(schedule) is None:  # a header may hold any text
        return None
    try:
        return Schedule.objects.using(using).filter(pk=schedule).values_list("cron", "timezone").first()
    except Error:
        logger.warning("the schedule %r can't be read for its monitor", schedule, exc_info=True)
        connections[using].close_if_unusable_or_obsolete()  # the handler comes next
        return None
