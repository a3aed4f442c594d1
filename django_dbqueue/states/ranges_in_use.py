"""Which queues, statuses and priorities have rows, at the cost of one index entry each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from django_dbqueue.databases import Statement
from django_dbqueue.databases.session import Session
from django_dbqueue.databases.statement import Row
from django_dbqueue.states import queues_sql, skip_scans_sql
from django_dbqueue.states.queues_sql import skips
from django_dbqueue.states.table import STATES
from django_dbqueue.statuses import STATUSES

HIGHEST: Final = 32_767
"""The highest priority."""
_FEW: Final = 3
"""Up to this many queues, ranges are found queue by queue."""


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
    if (rows := _skipped(session, queues_sql.names(server))) is not None:
        return sorted(str(name) for (name,) in rows)
    names: list[str] = []
    while rows := session.fetch(skip_scans_sql.next_queue(server, names[-1] if names else "")):
        names.append(str(rows[0][0]))
    return names


def ranges_in_use(session: Session, queues: Collection[str] | None = None) -> list[Range]:
    """Return the ranges of these queues (None: all) that have rows: by queue, highest priority first."""
    if queues is None or len(queues) > _FEW:
        rows = _skipped(session, queues_sql.ranges(session.server))
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
    while rows := session.fetch(
        skip_scans_sql.next_priority(session.server, queue, status, found[-1] if found else HIGHEST)
    ):
        found.append(int(rows[0][0]))
    return found


def _place(each: Range) -> tuple[str, str, int]:
    return each.queue, each.status, -each.priority


def _skipped(session: Session, statement: Statement) -> list[Row] | None:
    """Run a skip scan; return None, with nothing read, if the server would read the index from end to end."""
    server = session.server
    plan = queues_sql.plan(server, statement)
    if plan is not None and not skips(session.fetch(plan)):
        return None
    return session.fetch(statement)
