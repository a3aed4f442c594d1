"""Running schedules, in every worker: what is due by the database's clock is enqueued once.

The worker's own clock only decides how long to wait before the database's clock is read again (by the monotonic clock,
for five seconds at most); it never decides what is due.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db import Error

from django_dbqueue.exceptions import InvalidSchedule, SchedulesNotInstalled
from django_dbqueue.models import Schedule
from django_dbqueue.models.schedule import ABANDONED_AFTER, TOLERANCE, definition, is_due_at_the_same_times
from django_dbqueue.schedules.declarations import Plan
from django_dbqueue.sessions.django_session import DjangoSession

if TYPE_CHECKING:
    from django_dbqueue.models.schedule import ScheduleNow

CHECK_EVERY: Final = 5.0
AT_REST: Final = 60.0
"""Seconds after which a worker checks in any case, unless it rests longer: clocks are set, and rows change."""
RECHECK_AFTER: Final = 1.0
"""Seconds until the next check if another worker holds the row, or a schedule has just begun."""
MISSED_AFTER: Final = timedelta(seconds=60)
"""A due time that no worker handled for this long was missed."""
CATCH_UP: Final = 100
"""How many missed due times ``missed="all"`` makes up for: the latest ones."""
_NAMES: Final = {"timezone": "time zone", "body": "payload, key or policy for missed times"}

logger = logging.getLogger("django_dbqueue.worker")


class Timetable:
    """The schedules that a worker declares, those that operators have added, and when it will check them next."""

    def __init__(self, session: DjangoSession, plans: tuple[Plan, ...], declared_at: datetime) -> None:
        self._session = session
        self._rows = Schedule.objects.using(session.using)
        self._plans = plans
        self._definitions = {plan.name: definition(plan) for plan in plans}
        self._declared_at = declared_at
        self._overruled: set[str] = set()
        self._warned: set[tuple[str, datetime]] = set()
        self._check_at = 0.0
        self._seen_added = ""
        self.at_most = CHECK_EVERY
        """Seconds after which it checks in any case."""
        self.added = ""
        """'' if operators have added no schedules, else a text that changes with them, as the idle poll has it."""
        self._read: dict[str, tuple[object, Plan | None]] = {}

    def run(self, now: float) -> None:
        """Enqueue what is due. ``now`` is of the monotonic clock, in seconds."""
        if self.added != self._seen_added:
            self._seen_added, self._check_at = self.added, now
        if self._runs_any and now >= self._check_at:
            self._check_at = now + RECHECK_AFTER  # in case it fails
            self._check_at = now + self._check()

    def hasten(self, moment: float = 0.0) -> None:
        """Check by then, or at the next turn: an operator may have changed something."""
        self._check_at = min(self._check_at, moment)

    def until_next(self, now: float) -> float:
        """Return for how many seconds nothing will be due, as far as is known; infinite without schedules."""
        return max(0.0, self._check_at - now) if self._runs_any else float("inf")

    @property
    def _runs_any(self) -> bool:
        return bool(self._plans or self.added)

    def _check(self) -> float:
        """Handle every schedule; return for how many seconds nothing more will be due."""
        rows = self._rows.by_name(self._plans, and_added=bool(self.added))
        for row in rows.values():
            if self._declared_at - row.db_now > TOLERANCE:  # the server's clock was wrong when this worker was started
                self._declared_at = row.db_now
        waits = [self._see_to(plan, rows.pop(plan.name, None)) for plan in self._plans]
        self._read = {name: read for name, read in self._read.items() if name in rows}
        waits += [self._see_to_added(row) for row in rows.values()]
        return min(waits, default=self.at_most)

    def _see_to(self, plan: Plan, row: ScheduleNow | None) -> float:
        if row is None:
            self._rows.begin(plan, declared_at=self._declared_at)
            return RECHECK_AFTER
        if row.is_added:
            return self._replace(plan, row)
        if differing := self._differing(plan, row):
            return self._see_to_another_definition(plan, row, differing)
        return self._advance(plan, row, declared_at=self._declared_at)

    def _differing(self, plan: Plan, row: ScheduleNow) -> list[str]:
        """Name what the row has from another definition than this worker's."""
        return [
            _NAMES.get(column, column)
            for column, value in self._definitions[plan.name].items()
            if getattr(row, column) != value
        ]

    def _see_to_added(self, row: ScheduleNow) -> float:
        plan = self._plan_of(row)
        return self.at_most if plan is None else self._advance(plan, row, declared_at=row.declared_at)

    def _plan_of(self, row: ScheduleNow) -> Plan | None:
        """Return what an operator's schedule enqueues, read once; None if this worker can't read it."""
        version = (row.queue, row.cron, row.timezone, row.missed, row.body, row.key)
        known = self._read.get(row.name)
        if known is not None and known[0] == version:
            return known[1]
        plan: Plan | None = None
        try:
            plan = row.plan()
        except (InvalidSchedule, SchedulesNotInstalled) as error:
            logger.error("schedule %s was added by an operator, but this worker can't run it: %s", row.name, error)
        self._read[row.name] = version, plan
        return plan

    def _replace(self, plan: Plan, row: ScheduleNow) -> float:
        if self._rows.redeclare(plan, row, declared_at=self._declared_at):
            logger.warning(
                "schedule %s is declared now, which replaces the one that an operator had added: %s, %s, queue %s",
                plan.name, row.cron, row.timezone, row.queue,
            )  # fmt: skip
        return RECHECK_AFTER

    def _advance(self, plan: Plan, row: ScheduleNow, *, declared_at: datetime) -> float:
        """Enqueue what is due; return for how many seconds nothing more will be."""
        if row.is_disabled:
            self._rows.confirm(row, declared_at=declared_at)
            return self.at_most
        if row.last_due - row.db_now > TOLERANCE:
            self._warn_beyond_clock(plan, row)
        due = plan.cron.after(row.last_due)
        if due is not None and due <= row.db_now:
            return 0.0 if self._fire(plan, row, first=due) else RECHECK_AFTER
        self._rows.confirm(row, declared_at=declared_at)
        return self.at_most if due is None else min(float((due - row.db_now).total_seconds()), self.at_most)

    def _see_to_another_definition(self, plan: Plan, row: ScheduleNow, differing: list[str]) -> float:
        """Let the later start win, so that two versions don't overwrite each other forever.

        The earlier one takes over again when the later one is gone.
        """
        was_later = self._declared_at <= row.declared_at <= row.db_now + TOLERANCE
        if was_later and not row.was_seen_long_ago(ABANDONED_AFTER):
            self._warn_overruled(plan, row, differing)
            return self.at_most
        if self._rows.redeclare(plan, row, declared_at=self._declared_at):
            logger.info(
                "schedule %s has changed and %s: %s, %s, queue %s",
                plan.name, "continues" if is_due_at_the_same_times(plan, row) else "starts over",
                plan.cron.expression, plan.cron.timezone, plan.queue,
            )  # fmt: skip
        return RECHECK_AFTER

    def _fire(self, plan: Plan, row: ScheduleNow, *, first: datetime) -> bool:
        """Enqueue what is due, from the first time on; return False if another worker did so or holds the row."""
        latest = plan.cron.latest(after=row.last_due, until=row.db_now)
        assert latest is not None  # the first one is due
        times = [latest]
        if plan.missed == "all":
            times = plan.cron.last_ones(CATCH_UP, after=row.last_due, until=row.db_now)
        elif plan.missed == "skip" and row.db_now - latest > MISSED_AFTER:
            times = []
        try:
            if not self._rows.fire(plan, row, times=times, upto=latest):
                return False
        except (Exception, SystemExit) as error:  # of a task's own code, such as its group: nothing is written
            if isinstance(error, Error) and (plan.enqueue is None or not self._answers()):
                raise
            if (plan.name, latest) not in self._warned:
                self._warned.add((plan.name, latest))
                logger.exception("schedule %s: what is due at %s can't be enqueued, retrying", plan.name, latest)
            return False
        if not times or times[0] > first:
            sent = {0: "none of them was", 1: "the latest was"}.get(len(times), f"the latest {len(times)} were")
            logger.warning(
                "schedule %s missed due times from %s on; %s enqueued (missed=%r)",
                plan.name, first.isoformat(), sent, plan.missed,
            )  # fmt: skip
        return True

    def _answers(self) -> bool:
        """Return whether the database does, so that the error is of what a task's own code has asked."""
        connection: Any = self._session.connection
        return connection.connection is not None and bool(connection.is_usable())

    def _warn_overruled(self, plan: Plan, row: ScheduleNow, differing: list[str]) -> None:
        if plan.name not in self._overruled:
            self._overruled.add(plan.name)
            logger.warning(
                "schedule %s (%s, %s, queue %s) has another %s in a worker that was started later and takes precedence "
                "(%s, %s, queue %s); restart this worker with the same settings",
                plan.name, plan.cron.expression, plan.cron.timezone, plan.queue, ", ".join(differing),
                row.cron, row.timezone, row.queue,
            )  # fmt: skip

    def _warn_beyond_clock(self, plan: Plan, row: ScheduleNow) -> None:
        """Warn once: setting it back is for somebody who knows which of the two times was wrong."""
        if (plan.name, row.last_due) not in self._warned:
            self._warned.add((plan.name, row.last_due))
            logger.error(
                "schedule %s will not fire before %s, which is %s ahead of the server's clock. The clock is wrong "
                "now, or was wrong when the schedule last fired. If it is correct now, run manage.py queue_doctor "
                "--set-back-schedules",
                plan.name, row.last_due.isoformat(), row.last_due - row.db_now,
            )  # fmt: skip
