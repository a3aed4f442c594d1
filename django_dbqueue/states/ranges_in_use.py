"""Which queues have rows, and which statuses and priorities: skip scans over the claim index.

A *range* is a queue, a status and a priority: within it the index is sorted by ``available_at``, so each state is one
contiguous part of it. Finding all ranges costs one index entry each, however many rows they have.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from django_dbqueue.databases import Statement
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.server import Server
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import Row, holes
from django_dbqueue.states.table import STATES
from django_dbqueue.statuses import NEW, STATUSES

HIGHEST: Final = 32_767
"""The highest priority."""
_FEW: Final = 3
"""Up to this many queues, ranges are found queue by queue."""
SMALL: Final = 10_000
"""An index with this many entries may be read from end to end."""
_MYSQL_COLUMNS: Final = 12
"""Columns of its EXPLAIN, which has ``filtered`` between ``rows`` and ``Extra``; MariaDB's doesn't."""
_NAMES: Final = (
    "WITH RECURSIVE names (queue) AS ("
    "SELECT queue FROM (SELECT queue FROM {message}{index} WHERE queue > '' ORDER BY queue LIMIT 1) AS first "
    "UNION ALL SELECT (SELECT m.queue FROM {message} AS m{index} WHERE m.queue > names.queue ORDER BY m.queue LIMIT 1) "
    "FROM names WHERE names.queue IS NOT NULL)"
)
# In a form that no server turns into a join, for which it would read all rows; nor does the moment lead SQLite to
# skip-scan all queues again for each queue, as it does with statistics that know a single one.
_HAS_WORK: Final = (
    "(SELECT 1 FROM {message} AS m{index} WHERE m.queue = names.queue AND m.status = '{new}' "
    "AND COALESCE(m.available_at, m.available_at) <= {now} LIMIT 1) IS NOT NULL"
)
_HIGHEST: Final = (
    "(SELECT m.priority FROM {message} AS m{index} WHERE m.queue = {of}.queue AND m.status = {of}.status{below} "
    "ORDER BY m.priority DESC LIMIT 1)"
)


class Range(NamedTuple):
    """A range of the claim index that is sorted by ``available_at``."""

    queue: str
    status: str
    priority: int

    def may_hold(self, state: str) -> bool:
        """Whether messages in this state would be here."""
        return STATES[state].stage.status == self.status


def queues_in_use(session: Session) -> list[str]:
    """Return the names of all queues that have rows, sorted."""
    server = session.server
    if (rows := _skipped(session, queue_names(server))) is not None:
        return sorted(str(name) for (name,) in rows)
    found: list[str] = []
    while rows := session.fetch(next_queue(server, found[-1] if found else "")):
        found.append(str(rows[0][0]))
    return found


def ranges_in_use(session: Session, queues: Collection[str] | None = None) -> list[Range]:
    """Return the ranges of these queues (None: all) that have rows: by queue, highest priority first."""
    if queues is None or len(queues) > _FEW:
        rows = _skipped(session, index_ranges(session.server))
        if rows is not None:
            found = (Range(str(queue), str(status), int(priority)) for queue, status, priority in rows)
            wanted = None if queues is None else set(queues)
            return sorted((each for each in found if wanted is None or each.queue in wanted), key=_place)
    return [
        Range(queue, status, priority)
        for queue in (queues_in_use(session) if queues is None else sorted(queues))
        for status in STATUSES
        for priority in priorities_in_use(session, queue, status)
    ]


def priorities_in_use(session: Session, queue: str, status: str) -> list[int]:
    """Return the priorities of a queue's rows in this status, highest first: one index entry read for each."""
    found: list[int] = []
    while rows := session.fetch(next_priority(session.server, queue, status, found[-1] if found else HIGHEST)):
        found.append(int(rows[0][0]))
    return found


def _place(each: Range) -> tuple[str, str, int]:
    return each.queue, each.status, -each.priority


def _skipped(session: Session, statement: Statement) -> list[Row] | None:
    """Run a skip scan; return None, with nothing read, if the server would read the index from end to end."""
    if session.server.skips_for_distinct and not skips(session.fetch(explained(statement))):
        return None
    return session.fetch(statement)


def queue_names(server: Server) -> Statement:
    """Read the names of all queues that have rows."""
    if server.skips_for_distinct:
        return Statement(f"SELECT DISTINCT queue FROM {server.message}{server.use[Index.CLAIM]}", ())
    return Statement(f"{_names(server)} SELECT queue FROM names WHERE queue IS NOT NULL", ())


def unserved(server: Server, served: Sequence[str]) -> Statement:
    """Read the names of all queues except these that have something to do."""
    others = f"queue NOT IN ({holes(len(served))})"
    work = _HAS_WORK.format(message=server.message, index=server.use[Index.CLAIM], new=NEW, now=server.now)
    if server.skips_for_distinct:
        every = f"SELECT queue FROM ({queue_names(server).sql}) AS names"
    else:
        every = f"{_names(server)} SELECT queue FROM names"
    return Statement(f"{every} WHERE queue IS NOT NULL AND {others} AND {work}", tuple(served))


def index_ranges(server: Server) -> Statement:
    """Read all ranges that have rows."""
    if server.skips_for_distinct:
        return Statement(f"SELECT DISTINCT queue, status, priority FROM {server.message}{server.use[Index.CLAIM]}", ())
    statuses = " UNION ALL ".join(f"SELECT '{status}' AS status" for status in STATUSES)
    pairs = f"SELECT queue, status FROM names CROSS JOIN ({statuses}) AS each_one WHERE queue IS NOT NULL"
    first = _highest(server, "pairs", "")
    lower = _highest(server, "ranges", " AND m.priority < ranges.priority")
    return Statement(
        f"{_names(server)}, pairs (queue, status) AS ({pairs}), "
        f"ranges (queue, status, priority) AS (SELECT queue, status, {first} FROM pairs "
        f"UNION ALL SELECT queue, status, {lower} FROM ranges WHERE priority IS NOT NULL) "
        "SELECT queue, status, priority FROM ranges WHERE priority IS NOT NULL",
        (),
    )


def explained(statement: Statement) -> Statement:
    """Ask how the server would run one of the two above, where DISTINCT may skip."""
    return Statement(f"EXPLAIN FORMAT=TRADITIONAL {statement.sql}", statement.params)


def skips(plan: Sequence[Row]) -> bool:
    """Return whether this plan reads one entry for each answer, or a table so small that it doesn't matter."""
    row = plan[0]
    rows = row[-3] if len(row) == _MYSQL_COLUMNS else row[-2]
    return "Using index for group-by" in str(row[-1]) or (rows is not None and int(rows) <= SMALL)


def next_priority(server: Server, queue: str, status: str, below: int) -> Statement:
    """Take one step of a skip scan over the priorities in use: one index entry read."""
    return Statement(
        f"SELECT priority FROM {server.message}{server.use[Index.CLAIM]} WHERE queue = %s AND status = %s "
        "AND priority < %s ORDER BY priority DESC LIMIT 1",
        (queue, status, below),
    )


def next_queue(server: Server, after: str) -> Statement:
    """Take one step of a skip scan over the queues in use."""
    return Statement(
        f"SELECT queue FROM {server.message}{server.use[Index.CLAIM]} WHERE queue > %s ORDER BY queue LIMIT 1",
        (after,),
    )


def _names(server: Server) -> str:
    return _NAMES.format(message=server.message, index=server.use[Index.CLAIM])


def _highest(server: Server, of: str, below: str) -> str:
    return _HIGHEST.format(message=server.message, index=server.use[Index.CLAIM], of=of, below=below)
