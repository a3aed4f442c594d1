"""Stored routines: they stay as they were created, whatever version runs now, and whatever the settings say now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue.doctor.check import a_server, examines
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, warning
from django_dbqueue.routines.installation import compare
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.counts import grouped

SHOWN: Final = 5
"""Routines that a finding names."""


@examines("routines", on=a_server, needs_tables=True)
def routines(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether stored routines that are installed are those of this version and of these settings."""
    number, differ = compare(session_of(database.alias))
    if not number:
        yield fine(_("No stored routines are installed, as far as this account can see."))
    elif not differ:
        yield fine(_("The stored routines are those of this version and these settings (%s).") % grouped(number))
    else:
        more = "…" if len(differ) > SHOWN else ""
        yield warning(
            _("Stored routines are of another version, or of other settings: %(count)s (%(names)s).")
            % {"count": grouped(len(differ)), "names": ", ".join(differ[:SHOWN]) + more},
            _("Run manage.py queue_routines install, with the account that installed them, and these settings."),
        )
