"""The server: whether a commit is a commit, and whether it takes the queue's statements at all."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext as _

from django_dbqueue.claims import claims_sql
from django_dbqueue.doctor.check import a_file, a_server, examines, judgement, judges, to_work
from django_dbqueue.doctor.examined_database import NOBODYS, ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine
from django_dbqueue.statuses import NEW

durability = judges("durability")
writable = judges("writable")
journal_mode = judges("journal-mode")
binary_log = judges("binary-log")
cluster = judges("cluster")
packet_size = judges("packet-size")
characters = judges("characters")
returning = judges("skip-locked", on=a_file)


@examines("skip-locked", on=a_server, needs_tables=True, grant=to_work)
def skip_locked(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check for it by version, and try it: the claim's own lock, on a queue that can have no rows."""
    if "skip-locked" in database.server.facts.judges and (found := list(judgement(database, "skip-locked"))):
        yield from found
        return
    database.ask(claims_sql.due(database.server, ("id",), NOBODYS, NEW, 0, 1))
    yield fine(_("The server supports SELECT … FOR UPDATE SKIP LOCKED, and ran one on the message table."))
