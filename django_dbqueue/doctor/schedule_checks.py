"""Schedules that enqueue nothing: silenced by a wrong clock, added and not runnable, or disabled."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue.doctor.check import examines
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, note, problem
from django_dbqueue.exceptions import InvalidSchedule, SchedulesNotInstalled
from django_dbqueue.models import Schedule
from django_dbqueue.models.fields import clock

MOST_NAMED: Final = 20
"""Schedules that are reported one by one."""


@examines("schedules", needs_tables=True)
def schedules(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check which schedules are ahead of the server's clock, which of the added ones can't run, which are disabled."""
    yield from _beyond_clock(database)
    yield from _unreadable(database)
    disabled = Schedule.objects.using(database.alias).filter(disabled_at__isnull=False).order_by("pk")
    if names := list(disabled.values_list("pk", flat=True)[: MOST_NAMED + 1]):
        more = ", …" if len(names) > MOST_NAMED else ""
        yield note(_("An operator has disabled these schedules: %s") % (", ".join(names[:MOST_NAMED]) + more))


def _unreadable(database: ExaminedDatabase) -> Iterable[Finding]:
    for row in Schedule.objects.using(database.alias).filter(is_added=True).order_by("pk"):
        try:
            row.plan()
        except InvalidSchedule as error:
            yield problem(
                _("The schedule %(name)s, which an operator has added, can't run: %(error)s")
                % {"name": row, "error": error},
                _("Change or delete it in the admin. If the time zone is unknown here only, install tzdata."),
            )
        except SchedulesNotInstalled as error:
            yield problem(
                _("Operators have added schedules, which can't run here: %s") % error,
                _("Install it wherever workers run."),
            )
            return


def _beyond_clock(database: ExaminedDatabase) -> Iterable[Finding]:
    now = clock(database.alias)
    rows = list(islice(Schedule.objects.using(database.alias).beyond_clock(), MOST_NAMED + 1))
    do = _(
        "If the server's clock is correct now, let these schedules continue from now: manage.py queue_doctor "
        "--set-back-schedules"
    )
    for row in rows[:MOST_NAMED]:
        yield problem(
            _(
                "The schedule %(name)s will not fire before %(time)s, which is %(ahead)s ahead of the server's "
                "clock. The clock is wrong now, or was wrong when the schedule last fired."
            )
            % {"name": row, "time": row.last_due.isoformat(), "ahead": row.last_due - now},
            do,
        )
    if len(rows) > MOST_NAMED:
        yield problem(_("More schedules are ahead than the %s listed here.") % MOST_NAMED, do)
    if not rows:
        yield fine(_("No schedule is ahead of the server's clock."))


def set_back(alias: str) -> Iterable[Finding]:
    """Let schedules that are ahead continue from now, and report which."""
    for row in Schedule.objects.using(alias).set_back():
        yield note(
            _("The schedule %(name)s was set back from %(time)s, and continues from now.")
            % {"name": row, "time": row.last_due.isoformat()},
        )
