"""The history's table: whether what was exported can leave it at once, and whether somebody keeps its partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue.databases.partitioning_sql import TABLE
from django_dbqueue.doctor.check import examines
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, note, problem, warning
from django_dbqueue.history import age_sql, history_sql, partitions
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.statements import scan_sql
from django_dbqueue.states.counts import grouped

LARGE: Final = 10_000_000
"""Ids from which deleting what was exported is slow enough to matter."""
_PARTITION: Final = "manage.py queue_archive partition --database %s"


@examines("archive", on=lambda server: server.partitions is not None, needs_tables=True)
def archive(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether a large history has partitions, and whether those that it has are kept."""
    session = session_of(database.alias)
    order = _PARTITION % database.alias
    there = partitions.existing(session)
    if there is None:
        yield problem(
            _("The history's table %s is missing: it was being partitioned, and that was interrupted.") % TABLE, order
        )
        return
    yield _kept(session, there, order) if there else _one_table(session, order)


def _one_table(session: DjangoSession, order: str) -> Finding:
    [(first, last)] = session.fetch(scan_sql.ends(session.server.archived))
    span = 0 if first is None else int(last) - int(first) + 1
    is_purged = session.fetch(history_sql.purged_to(session.server))[0][0] is not None
    is_purged = is_purged or bool(session.fetch(age_sql.gone_to(session.server)))
    if span < LARGE or not is_purged:
        return fine(_("The history is one table of at most %s rows.") % grouped(span))
    return warning(
        _("The history is one table of up to %s rows, which are deleted row by row: that is slow.") % grouped(span),
        order,
    )


def _kept(session: DjangoSession, there: list[partitions.Partition], order: str) -> Finding:
    wanted = partitions.upkeep(session, there, most=None)
    if wanted.is_occupied:
        return warning(
            _("Rows of the history are in its last partition, for what no other one takes. It is never dropped."),
            order,
        )
    if wanted.uppers:
        return warning(
            _("The history needs %d more partitions: no worker runs, or their account may not add any.")
            % len(wanted.uppers),
            order,
        )
    if wanted.drops:
        return note(
            _("%d partitions of the history were purged, and wait for a worker to drop them.") % len(wanted.drops),
            order,
        )
    return fine(_("The history has %d partitions.") % len(there))
