"""Whether the server has connections for all workers: their threads add up, over processes and hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

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


class _Limit(NamedTuple):
    """How many connections there may be, and are: to the server, or only of the account or to the database."""

    most: int
    used: int
    is_of_all: bool


@examines(
    "connections",
    on=answering("connections", "most connections", "lower limits of connections"),
    needs_tables=True,
)
def connections(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether all threads of all living workers can have a connection at once."""
    most, used, is_of_all = _narrowest(database)
    workers = living(database, clock(database.alias))
    listens = database.server.notifies and bool(conf.get("NOTIFY"))
    need = needed(workers, listens=listens)
    words = {
        "processes": len(workers),
        "hosts": len({each.host for each in workers}),
        "threads": sum(each.threads for each in workers),
        "need": need,
        "used": used,
        "most": most,
    }
    found, do = _of_all() if is_of_all else _of_some()
    others = max(0, used - OWN * len(workers))  # which a living process has in any case
    if need > most or used > NEARLY_ALL * most:
        yield warning(found % words, do)
    elif need + others > most:
        yield note(found % words, do)
    else:
        yield fine(found % words)


def _of_all() -> tuple[str, str]:
    return _(
        "The workers (processes: %(processes)s, hosts: %(hosts)s, threads: %(threads)s) use up to %(need)s "
        "connections to this database; the server takes %(most)s, and has %(used)s now."
    ), _(
        "Run fewer processes or threads, or raise max_connections. A thread connects when its handler first uses the "
        "database."
    )


def _of_some() -> tuple[str, str]:
    return _(
        "The workers (processes: %(processes)s, hosts: %(hosts)s, threads: %(threads)s) use up to %(need)s "
        "connections to this database; the server takes %(most)s of this account or to this database, and has %(used)s "
        "such now."
    ), _(
        "Run fewer processes or threads, or raise the limit of the account or of the database. A thread connects when "
        "its handler first uses the database."
    )


def _narrowest(database: ExaminedDatabase) -> _Limit:
    """Return the limit that leaves the fewest connections; each is compared with what counts for it."""
    [(most,)], [(*_name, used)] = database.answer("most connections"), database.answer("connections")
    lower = database.answer("lower limits of connections")
    limits = [
        _Limit(int(most), int(used), is_of_all=True),
        *(_Limit(int(m), int(u), is_of_all=False) for m, u in lower),
    ]
    return min(limits, key=lambda limit: limit.most - limit.used)
