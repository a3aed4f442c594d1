"""A schedule that is due once an hour, workers that look at it when a test says so, and what they have sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from django_dbqueue.models import Message, Schedule
from django_dbqueue.models.fields import clock
from django_dbqueue.schedules.declarations import DUE_HEADER, NAME_HEADER, Plan, read
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.idle_poll import IdlePoll
from django_dbqueue.worker.timetable import CHECK_EVERY, Timetable

FAR = (datetime.now(UTC) + timedelta(minutes=30)).minute
"""A minute of the hour that does not come while these tests run."""
AS_FAR = (FAR + 10) % 60
HOURLY = f"{FAR} * * * *"
ALSO_HOURLY = f"{AS_FAR} * * * *"
NEVER_NOW = "0 0 29 2 *"
"""Once in four years."""
GOOD: dict[str, Any] = {"queue": "tests", "cron": HOURLY, "timezone": "UTC"}


def plan(name: str = "s", **options: Any) -> Plan:
    return read(name, {"queue": "tests", "cron": HOURLY, "timezone": "UTC", **options})


_starts = count(1)


class Worker:
    """One worker's timetable, whose monotonic clock is this test's; each is started later than the one before."""

    def __init__(self, *plans: Plan, declared_at: datetime | None = None) -> None:
        self.timetable = Timetable(
            session_of("default"), plans, declared_at or clock("default") + timedelta(microseconds=next(_starts))
        )
        self._now = 0.0

    def check(self) -> None:
        self._now += CHECK_EVERY
        self.timetable.run(self._now)


def stands(name: str = "s") -> Schedule:
    return Schedule.objects.get(pk=name)


def last_check_was(ago: timedelta, name: str = "s") -> datetime:
    """As if no worker had looked for so long; return how far the schedule has come."""
    last_due = clock("default") - ago
    Schedule.objects.filter(pk=name).update(last_due=last_due)
    return last_due


def sent(name: str = "s") -> list[datetime]:
    """The due times of this schedule's messages, in the order of their ids."""
    headers = [message.headers for message in Message.objects.order_by("pk")]
    return [datetime.fromisoformat(each[DUE_HEADER]) for each in headers if each.get(NAME_HEADER) == name]


def hourly(after: datetime, until: datetime) -> list[datetime]:
    moment = after.replace(minute=FAR, second=0, microsecond=0)
    moments = []
    while moment <= until:
        moments += [moment] if moment > after else []
        moment += timedelta(hours=1)
    return moments


def add(name: str = "s", **options: Any) -> Schedule:
    return Schedule.objects.add(name, **(GOOD | options))


def seen() -> str:
    """What a worker's idle poll says of added schedules."""
    idle_poll = IdlePoll(session_of("default"), ("tests",), "operations")
    idle_poll.poll("", soon=1.0)
    return idle_poll.added


class Looker(Worker):
    """A worker that is told of added schedules by its idle poll, each time it looks."""

    def check(self) -> None:
        self._now += CHECK_EVERY
        self.timetable.added = seen()
        self.timetable.run(self._now)
