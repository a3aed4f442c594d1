"""Whether there is anything to do: any number of facts in one statement, without locks, one index entry each.

A fact is a row (fact, name, priority) if it holds, and no row if it doesn't.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.statement import Statement
from django_dbqueue.states.table import LIVE
from django_dbqueue.statuses import NEW, RUNNING
from django_dbqueue.streams import stream_claims_sql
from django_dbqueue.worker.sleepers import SIBLINGS

READY: Final = "ready"
EXPIRED: Final = "expired"
PAUSED: Final = "paused"
AT_WORK: Final = "at work"
GIVEN_UP: Final = "given up"
RATED: Final = "rated"
ADDED: Final = "added"
LATE: Final = "late"
LATE_SOON: Final = "late soon"
BEFORE: Final = "before"
AFTER: Final = "after"
WORK: Final = "work"
NEXT: Final = "next"
_DUE: Final = {READY: NEW, EXPIRED: RUNNING}


def together(parts: Sequence[Statement]) -> Statement:
    """Ask all of them at once."""
    return Statement(
        " UNION ALL ".join(part.sql for part in parts), tuple(value for part in parts for value in part.params)
    )


def due(server: Server, fact: str, queue: str, known: Sequence[int]) -> Iterator[Statement]:
    """READY or EXPIRED: a row is due at a known priority, or one exists, due or not, at another.

    ``known`` is in descending order. So each range of the claim index is bounded, whatever else the queue holds. A
    caller that learns of a new priority only has to remember it.
    """
    above: int | None = None
    for priority in known:
        yield _between(server, fact, queue, priority, above)
        yield _stretch(
            server, fact, queue, f"priority = %s AND available_at <= {server.now} ORDER BY available_at", (priority,)
        )
        above = priority
    yield _between(server, fact, queue, None, above)


def _between(server: Server, fact: str, queue: str, low: int | None, high: int | None) -> Statement:
    bounds = [("priority > %s AND ", low), ("priority < %s AND ", high)]
    params = tuple(value for _, value in bounds if value is not None)
    where = "".join(sql for sql, value in bounds if value is not None).removesuffix(" AND ") or "priority <= 32767"
    return _stretch(server, fact, queue, f"{where} ORDER BY priority DESC", params)


def _stretch(
    server: Server, fact: str, queue: str, where: str, params: tuple[int, ...], *, shown: str = ""
) -> Statement:
    shown = shown or f"'{fact}' AS fact, queue AS name, priority"
    return Statement(
        f"SELECT * FROM (SELECT {shown} "
        f"FROM {server.message}{server.use[Index.CLAIM]} WHERE queue = %s AND status = '{_DUE[fact]}' "
        f"AND {where} LIMIT 1) AS stretch",
        (queue, *params),
    )


def next_due(server: Server, fact: str, queue: str, known: Sequence[int]) -> Iterator[Statement]:
    """NEXT: microseconds until a row that is READY or EXPIRED later, for each of these priorities."""
    until = f"{server.microseconds.format('available_at')} - {server.clock_us}"
    for priority in known:
        where = f"priority = %s AND available_at > {server.now} ORDER BY available_at"
        yield _stretch(
            server, fact, queue, where, (priority,), shown=f"'{NEXT}' AS fact, '' AS name, {until} AS priority"
        )


def next_open(server: Server) -> Statement:
    """NEXT: microseconds until a pause ends."""
    until = f"{server.microseconds.format('MIN(paused_until)')} - {server.clock_us}"
    return Statement(
        f"SELECT '{NEXT}' AS fact, '' AS name, {until} AS priority FROM {server.queue} "
        f"WHERE is_paused AND paused_until > {server.now} HAVING COUNT(*) > 0",
        (),
    )


def paused(server: Server) -> Statement:
    """PAUSED, for each queue that is paused now."""
    return Statement(f"SELECT '{PAUSED}' AS fact, name, 0 AS priority FROM {server.queue} WHERE {server.is_paused}", ())


def at_work(server: Server, queue: str) -> Statement:
    """AT_WORK: the queue holds messages that wait or run."""
    return Statement(
        f"SELECT * FROM (SELECT '{AT_WORK}' AS fact, queue AS name, priority "
        f"FROM {server.message}{server.use[Index.CLAIM]} WHERE queue = %s AND {LIVE} "
        "LIMIT 1) AS work",
        (queue,),
    )


def given_up(server: Server) -> Statement:
    """GIVEN_UP: a claim of a stream is to be released."""
    given = stream_claims_sql.given_up(server, 1)
    return Statement(
        f"SELECT '{GIVEN_UP}' AS fact, stream AS name, 0 AS priority FROM ({given.sql}) AS given", given.params
    )


def rated(server: Server, queue: str) -> Statement:
    """RATED: groups of the queue have rates of their own."""
    return Statement(
        f"SELECT * FROM (SELECT '{RATED}' AS fact, queue AS name, 0 AS priority FROM {server.group} "
        "WHERE queue = %s AND rate IS NOT NULL LIMIT 1) AS rated",
        (queue,),
    )


def added(server: Server) -> Statement:
    """ADDED: operators have added schedules; the priority is a number that changes with them."""
    return Statement(
        f"SELECT '{ADDED}' AS fact, '' AS name, COUNT(*) + SUM(revision) AS priority FROM {server.schedule} "
        "WHERE is_added HAVING COUNT(*) > 0",
        (),
    )


def late(server: Server, fact: str, here: str, seconds: float) -> Statement:
    """LATE or LATE_SOON: the beat of a worker of this server will be late in ``seconds``, unless it arrives."""
    return Statement(
        f"SELECT * FROM (SELECT '{fact}' AS fact, '' AS name, 0 AS priority FROM {server.worker} "
        f"WHERE server = %s AND late_at < {server.plus(server.now, '%s')} LIMIT 1) AS tardy",
        (here, seconds),
    )


def fleet(server: Server, here: str, queues: str, worker_id: int, slowly: int) -> Statement:
    """BEFORE and AFTER: how many other supervisors have children that rest on these queues; WORK: others have messages.

    ``worker_id`` is one's own. ``slowly``: rows of children that rest promise so many seconds or more. Those whose
    session is not proven, behind a pooler, are of a server that isn't known, and count.
    """
    own = worker_id // SIBLINGS * SIBLINGS
    return Statement(
        f"SELECT CASE WHEN beat_every = 1 THEN '{WORK}' WHEN id < {own} THEN '{BEFORE}' ELSE '{AFTER}' END AS fact, "
        f"'' AS name, COUNT(DISTINCT id - id %% {SIBLINGS}) AS priority FROM {server.worker} "
        f"WHERE server IN (%s, '') AND late_at >= {server.now} AND ((beat_every = 1 AND id <> {worker_id}) OR "
        f"(beat_every >= %s AND queues = %s AND (id < {own} OR id >= {own + SIBLINGS}))) GROUP BY 1",
        (here, slowly, queues),
    )
