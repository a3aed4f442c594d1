"""Whether the server has connections for all workers: their threads add up, over processes and hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.utils.translation import gettext as _

from django_dbqueue import conf
from django_dbqueue.doctor.check import answering, examines
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding, fine, note, warning
from django_dbqueue.doctor.worker_checks import living
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import clock

OWN: Final = 2
"""Connections of a process besides those of its threads: it claims on one, and extends leases on another."""
OF_A_HOST: Final = 2
"""What a host's supervisor, and the search for unserved queues, hold for a moment."""
NEARLY_ALL: Final = 0.9
"""Share of the server's connections that are in use, above which others may find none."""


def needed(workers: Iterable[Worker], *, listens: bool) -> int:
    """Return how many connections to the queue's database these processes use at most, without coroutines' threads."""
    rows = list(workers)
    of_processes = sum(each.threads + OWN + listens for each in rows)
    return of_processes + OF_A_HOST * len({each.host for each in rows})


@examines("connections", on=answering("connections", "most connections"), needs_tables=True)
def connections(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether all threads of all living workers can have a connection at once."""
    [(most,)], [(*_name, used)] = database.answer("most connections"), database.answer("connections")
    workers = living(database, clock(database.alias))
    listens = database.server.notifies and bool(conf.get("NOTIFY"))
    most, used, need = int(most), int(used), needed(workers, listens=listens)
    words = {
        "processes": len(workers),
        "hosts": len({each.host for each in workers}),
        "threads": sum(each.threads for each in workers),
        "need": need,
        "used": used,
        "most": most,
    }
    found = _(
        "The workers' %(processes)s processes on %(hosts)s hosts, of %(threads)s threads in all, use up to %(need)s "
        "connections to this database; the server takes %(most)s, and has %(used)s now."
    )
    do = _(
        "Run fewer processes or threads, or raise max_connections. A thread connects when its handler first uses the "
        "database."
    )
    others = max(0, used - OWN * len(workers))  # which a living process has in any case
    if need > most or used > NEARLY_ALL * most:
        yield warning(found % words, do)
    elif need + others > most:
        yield note(found % words, do)
    else:
        yield fine(found % words)
