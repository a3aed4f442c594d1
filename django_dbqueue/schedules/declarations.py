"""What is to be enqueued when: ``DBQUEUE["SCHEDULES"]``, read and checked.

A consumer's cron is read the same way, and so is a schedule that an operator adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from django.conf import settings

from django_dbqueue import conf
from django_dbqueue.codecs import Json
from django_dbqueue.envelope import Envelope, check_queue, seal
from django_dbqueue.exceptions import InvalidMessage, InvalidSchedule, SchedulesNotInstalled
from django_dbqueue.schedules import cron
from django_dbqueue.settable.kinds import fitted
from django_dbqueue.settable.option_table import OPTIONS_OF, REQUIRED, SetIn, did_you_mean

Missed = Literal["latest", "all", "skip"]
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
    enqueue: Callable[[dict[str, Json], str], int] | None = None
    """What stores a message with these headers in this database, and returns its id, in the place of the payload: that
    of a task."""

    def envelope(self, due: datetime, *, run_by: str | None = None) -> Envelope:
        """Return the message of one due time; or of somebody who runs the schedule at this time, due or not."""
        headers = {NAME_HEADER: self.name, DUE_HEADER: due.isoformat()}
        if run_by is not None:
            headers[RUN_HEADER] = run_by
        return Envelope(self.payload, key=self.key, headers=headers)


def of_function(holder: str, queue: str, options: Mapping[str, Any]) -> dict[str, object] | None:
    """Return the schedule that a decorator's options amount to, in the form of ``SCHEDULES``; None if they set none.

    InvalidSchedule names the ``holder``, such as "The consumer of 'mail'", and says what can't be.
    """
    schedule = {name: options.get(name) for name in ("cron", "timezone", "missed")}
    schedule["missed"] = schedule["missed"] or "latest"
    if schedule["cron"] is None:
        if schedule["timezone"] is not None or schedule["missed"] != "latest":
            raise InvalidSchedule(f"{holder} sets timezone or missed, but no cron for them.")
        return None
    schedule["queue"] = queue
    with suppress(SchedulesNotInstalled):  # a process that runs no worker needs no cron library
        read(queue, schedule)
    return schedule


def read(name: object, declared: object) -> Plan:
    """Check one schedule; InvalidSchedule says what is wrong, SchedulesNotInstalled what is missing."""
    if not isinstance(declared, Mapping):
        raise InvalidSchedule(f"It must be a dict of options ({', '.join(conf.PER_SCHEDULE)}), not {declared!r}.")
    for option in declared:
        if option not in conf.PER_SCHEDULE:
            raise InvalidSchedule(
                f"It has an unknown option, {option!r}. {did_you_mean(option, conf.PER_SCHEDULE)}The options are: "
                f"{', '.join(conf.PER_SCHEDULE)}."
            )
    for option in REQUIRED:
        if option not in declared:
            raise InvalidSchedule(f"It needs the option {option!r}.")
    try:
        options = conf.PER_SCHEDULE | {
            option: fitted(OPTIONS_OF[SetIn.SCHEDULE][option].kind, value, option) for option, value in declared.items()
        }
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
