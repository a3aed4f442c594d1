"""When a cron expression is due in its time zone, as moments in UTC. cronsim (extra ``schedules``) reads expressions.

A time that the clocks skip in spring is due when they have jumped; one that occurs twice in autumn is due the first
time. An expression whose minute or hour begins with a star goes by elapsed time instead, as in Debian's cron.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

from django_dbqueue.exceptions import InvalidSchedule, SchedulesNotInstalled

MAX_LENGTH: Final = 200
_SOME_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression (``read``), and the name of its time zone."""

    expression: str
    timezone: str

    def after(self, moment: datetime) -> datetime | None:
        """Return the first due time later than an aware moment; None if the next fifty years have none."""
        for due in _times(self.expression, moment.astimezone(ZoneInfo(self.timezone))):
            if due > moment:  # a time that occurs twice was due the first time, which may be past by then
                return due
        return None

    def latest(self, *, after: datetime, until: datetime) -> datetime | None:
        """Return the last due time later than ``after`` and not later than ``until``, however many there are.

        It halves the span again and again, so a year of missed seconds costs no more than thirty steps.
        """
        due = self.after(after)
        if due is None or due > until:
            return None
        end = until
        while end - due >= _SECOND:
            middle = due + (end - due) / 2
            later = self.after(middle)
            if later is None or later > until:
                end = middle
            else:
                due = later
        return due

    def last_ones(self, at_most: int, *, after: datetime, until: datetime) -> list[datetime]:
        """Return the last due times later than ``after`` and not later than ``until``, in order."""
        found: list[datetime] = []
        while len(found) < at_most and (due := self.latest(after=after, until=until)) is not None:
            found.append(due)
            until = due - _SECOND
        return found[::-1]


def read(expression: object, timezone: object) -> Cron:
    """Check an expression and a zone; InvalidSchedule says what is wrong and what is meant."""
    if not isinstance(expression, str) or not expression.isascii() or len(expression) > MAX_LENGTH:
        raise InvalidSchedule(f"cron must be a cron expression of at most {MAX_LENGTH} characters, not {expression!r}.")
    cron = Cron(" ".join(expression.split()), zone(timezone))
    try:
        never = cron.after(_SOME_DAY) is None
    except (ValueError, _cronsim().CronSimError) as error:
        raise InvalidSchedule(
            f"{expression!r} is not a cron expression ({error}): its five fields are minute, hour, day of month, "
            "month and day of week, as in '*/5 * * * *'; a sixth field in front is the second."
        ) from error
    if never:
        raise InvalidSchedule(f"{expression!r} is never due: no day of the next fifty years matches.")
    return cron


def zone(name: object) -> str:
    """Return the name of a time zone that there is; InvalidSchedule says which may be meant."""
    try:
        if isinstance(name, str):
            return ZoneInfo(name).key
    except (KeyError, ValueError, OSError):  # unknown, not a name at all, or a directory of zones
        pass
    near = get_close_matches(str(name)[:100], available_timezones(), n=1)
    raise InvalidSchedule(
        f"There is no time zone {name!r}. {f'Did you mean {near[0]!r}? ' if near else ''}"
        "Names are like 'UTC' and 'Europe/Berlin'; a system without them needs the package tzdata."
    )


def _times(expression: str, start: datetime) -> Iterator[datetime]:
    for due in _cronsim().CronSim(expression, start):
        yield due.astimezone(UTC)


def _cronsim() -> Any:
    try:
        import cronsim
    except ImportError as error:
        raise SchedulesNotInstalled from error
    return cronsim
