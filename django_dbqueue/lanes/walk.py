"""A walk over lanes: the next ones that have somebody in their line, or a ticket out, at a few index entries each."""

from __future__ import annotations

from typing import Final, NamedTuple

from django_dbqueue.databases.session import Session
from django_dbqueue.lanes import groups_sql, lanes_sql

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
        if len(rows) < wanted and not session.server.skips_for_distinct:
            break
    return lanes


class Waiting(NamedTuple):
    """A lane in which somebody waits."""

    lane: int
    queue: str
    """The queue of the first in line; '' if its row is gone."""


def lanes_in_use(session: Session, after: int, limit: int) -> list[Waiting]:
    """Return the next lanes after a number; fewer than ``limit`` only if there are no more."""
    server = session.server
    lanes = next_lanes(session, server.line, after=after, limit=limit)
    if not lanes:
        return []
    first = {lane: one for lane, one, _ in session.fetch(groups_sql.firsts(server, lanes)) if one is not None}
    queues: dict[int, str] = dict(session.fetch(lanes_sql.queues_of(server, list(first.values())))) if first else {}
    return [Waiting(lane, queues.get(first.get(lane, 0), "")) for lane in lanes]
