"""Which lanes have somebody in their line, and of which queue, at the cost of a few index entries each."""

from __future__ import annotations

from typing import NamedTuple

from django_dbqueue.lanes import groups_sql, lanes_sql
from django_dbqueue.lanes.walk import next_lanes
from django_dbqueue.sessions.django_session import DjangoSession


class Waiting(NamedTuple):
    """A lane in which somebody waits."""

    lane: int
    queue: str
    """The queue of the first in line; '' if its row is gone."""


def lanes_in_use(session: DjangoSession, after: int, limit: int) -> list[Waiting]:
    """Return the next lanes after a number; fewer than ``limit`` only if there are no more."""
    server = session.server
    lanes = next_lanes(session, server.line, after=after, limit=limit)
    if not lanes:
        return []
    first = {lane: one for lane, one, _ in session.fetch(groups_sql.firsts(server, lanes)) if one is not None}
    queues: dict[int, str] = dict(session.fetch(lanes_sql.queues_of(server, list(first.values())))) if first else {}
    return [Waiting(lane, queues.get(first.get(lane, 0), "")) for lane in lanes]
