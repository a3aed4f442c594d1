"""Whose clock decides what: the database's counts, but a due time computed here uses this machine's."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.utils.translation import gettext as _

from django_dbqueue.doctor.check import a_server, answering, examines
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, note, warning
from django_dbqueue.models.fields import clock

WORTH_KNOWING: Final = 1.0
FAR_APART: Final = 60.0
"""Seconds of difference between the two clocks."""


@examines("clocks", on=a_server)
def clocks(database: ExaminedDatabase) -> Iterable[Finding]:
    """Compare the server's clock with this machine's, in UTC."""
    began, here = time.monotonic(), datetime.now(UTC)
    there = clock(database.alias)
    took = time.monotonic() - began
    lead = (there - here).total_seconds() - took / 2
    yield compared(lead, took)


def compared(lead: float, took: float) -> Finding:
    """Judge by how many seconds the server's clock is ahead of this one, known to half the answer's duration."""
    apart = abs(lead) - took / 2
    if apart <= WORTH_KNOWING:
        return fine(_("The clocks of the server and this machine agree (%+.3f s).") % lead)
    found = _(
        "The clocks of the server and this machine differ by %+.1f s. Delays and leases use the server's clock, so a "
        "message enqueued with at=datetime.now(…) is due that much too early or too late."
    )
    do = _("Synchronise both machines with a time server, or use delay= instead of at=.")
    return (warning if apart > FAR_APART else note)(found % lead, do)


@examines("time-zones", on=answering("time zone"))
def time_zones(database: ExaminedDatabase) -> Iterable[Finding]:
    """Ask whether the server knows the project's time zone, which Django's date filters need."""
    [(known,)] = database.answer("time zone", settings.TIME_ZONE)
    if known is None:
        yield note(
            _(
                "The server has no data for the time zone %s. The queue doesn't need it, but Django's filtering and "
                "grouping by date fail without it."
            )
            % settings.TIME_ZONE,
            _("Load it: mysql_tzinfo_to_sql /usr/share/zoneinfo | mysql -u root mysql"),
        )
    else:
        yield fine(_("The server knows the time zone %s.") % settings.TIME_ZONE)
