"""Schedules that a wrong clock has silenced."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue.doctor.check import examines
from django_dbqueue.doctor.finding import Finding, fine, note, problem
from django_dbqueue.doctor.patient import Patient
from django_dbqueue.models import Schedule
from django_dbqueue.models.fields import clock

MOST_NAMED: Final = 20
"""Schedules that are reported one by one."""


@examines("schedules", needs_tables=True)
def schedules(patient: Patient) -> Iterable[Finding]:
    """Check which schedules are ahead of the server's clock."""
    now = clock(patient.alias)
    rows = list(islice(Schedule.objects.using(patient.alias).ahead(), MOST_NAMED + 1))
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
