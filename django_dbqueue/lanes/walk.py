"""A walk over lanes: the next ones that have somebody in their line, or a ticket out."""

from __future__ import annotations

from typing import Final

from django_dbqueue.databases.session import Session
from django_dbqueue.lanes import lanes_sql

LAST: Final = 2**63 - 1
"""The highest number of a lane."""


def next_lanes(session: Session, table: str, *, after: int, until: int = LAST, limit: int) -> list[int]:
    """Return the next lanes that a table of lines or tickets names, in their order; fewer only if there are no more."""
    lanes: list[int] = []
    while len(lanes) < limit:
        wanted = limit - len(lanes)
        rows = session.fetch(lanes_sql.next_lanes(session.server, table, lanes[-1] if lanes else after, until, wanted))
        if not rows:
            break
        lanes += [row[0] for row in rows]
    return lanes
