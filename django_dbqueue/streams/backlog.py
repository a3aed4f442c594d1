"""How many messages of a queue a stream has not consumed: a bounded count on the claim index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from django_dbqueue.databases.session import Session
from django_dbqueue.states import depths_sql
from django_dbqueue.states.ranges_in_use import priorities_in_use
from django_dbqueue.states.table import Place
from django_dbqueue.statuses import NEW

MOST_COUNTED: Final = 20_000
"""Messages up to which a backlog is counted, whatever their states."""


class Backlog(NamedTuple):
    """What nobody has claimed, up to MOST_COUNTED in all; what is due is counted first."""

    ready: int
    waiting: int
    """Those that wait for their group, their flow or an event, and have no due time until then."""
    is_capped: bool
    """Whether there are more."""


def count_backlog(session: Session, queue: str, most: int) -> Backlog:
    """Count what is due, then what waits: at most one entry more than ``most``, and two for each priority in use."""
    priorities, limit = priorities_in_use(session, queue, NEW), most + 1
    ready = _count(session, queue, priorities, "ready", limit)
    waiting = _count(session, queue, priorities, "waiting", limit - ready)
    return Backlog(min(ready, most), min(waiting, most - min(ready, most)), ready + waiting > most)


def count_ready(session: Session, queue: str, limit: int) -> int:
    """Count the messages of a queue that are due, up to a limit; those that wait in their group are not."""
    return _count(session, queue, priorities_in_use(session, queue, NEW), "ready", limit)


def _count(session: Session, queue: str, priorities: Sequence[int], state: str, limit: int) -> int:
    found = 0
    for priority in priorities:
        if found >= limit:
            break
        place = Place(queue, state, priority)
        found += int(session.fetch(depths_sql.counts(session.server, [place], limit - found))[0][0])
    return found
