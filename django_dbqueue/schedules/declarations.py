"""What is to be enqueued when: ``DBQUEUE["SCHEDULES"]``, read and checked.

A consumer's cron is read the same way, and so is a schedule that an operator adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final, Literal

from django.conf import settings

from django_dbqueue import conf
from django_dbqueue.codecs import Json
from django_dbqueue.envelope import Envelope, check_queue, seal
from django_dbqueue.exceptions import InvalidMessage, InvalidSchedule
from django_dbqueue.schedules import cron

Missed = Literal["latest", "all", "skip"]
MISSED: Final = ("latest", "all", "skip")
NAME_HEADER: Final = "dbqueue.schedule"
"""Header of a message that a schedule sent: the schedule's name."""
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
DUE_HEADER: Final = "dbqueue.due"
"""Header of a message that a schedule sent: the due time that it is for, UTC in ISO 8601."""
RUN_HEADER: Final = "dbqueue.run_by"
"""Header of a message that somebody sent by *run now*: who, '' if that isn't known. Its due time is when they did."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One schedule as declared."""

    name: str
    queue: str
    cron: cron.Cron
    missed: Missed
    payload: Json
    key: str | None

    def envelope(self, due: datetime, *, run_by: str | None = None) -> Envelope:
        """Return the message of one due time; or of somebody who runs the schedule at this time, due or not."""
        headers = {NAME_HEADER: self.name, DUE_HEADER: due.isoformat()}
        if run_by is not None:
            headers[RUN_HEADER] = run_by
        return Envelope(self.payload, key=self.key, headers=headers)


def read(name: object, declared: object) -> Plan:
    """Check one schedule; InvalidSchedule says what is wrong, SchedulesNotInstalled what is missing."""
    if not isinstance(declared, Mapping):
        raise InvalidSchedule(f"It must be a dict of options ({', '.join(conf.PER_SCHEDULE)}), not {declared!r}.")
    for option in declared:
        if option not in conf.PER_SCHEDULE:
            near = get_close_matches(str(option).lower()[:100], conf.PER_SCHEDULE, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InvalidSchedule(
                f"It has an unknown option, {option!r}.{hint} The options are: {', '.join(conf.PER_SCHEDULE)}."
            )
    for option in ("queue", "cron"):
        if option not in declared:
            raise InvalidSchedule(f"It needs the option {option!r}.")
    options = {**conf.PER_SCHEDULE, **declared}
    if options["missed"] not in MISSED:
        raise InvalidSchedule(f"missed must be one of {', '.join(MISSED)}, not {options['missed']!r}.")
    try:
        plan = Plan(
            name=check_queue(name),  # the same characters, for the same reasons
            queue=check_queue(options["queue"]),
            cron=cron.read(options["cron"], settings.TIME_ZONE if options["timezone"] is None else options["timezone"]),
            missed=options["missed"],
            payload=options["payload"],
            key=options["key"],
        )
        seal(plan.envelope(_ANY_TIME), queue=plan.queue, priority=0, max_bytes=conf.get("MAX_PAYLOAD_BYTES"))
    except InvalidMessage as error:
        raise InvalidSchedule(str(error)) from error
    return plan


def of_settings() -> list[Plan]:
    """Return the schedules of the settings; the error names the one that is wrong."""
    plans = []
    for name, declared in conf.get("SCHEDULES").items():
        try:
            plans.append(read(name, declared))
        except InvalidSchedule as error:
            raise InvalidSchedule(f"{conf.NAME}['SCHEDULES'][{name!r}]: {error}") from error
    return plans
