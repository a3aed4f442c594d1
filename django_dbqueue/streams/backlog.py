"""How many messages a stream could claim now: a bounded count on the claim index."""

from __future__ import annotations

from typing import Final

from django_dbqueue.databases.session import Session
from django_dbqueue.states import depths_sql
from django_dbqueue.states.ranges_in_use import priorities_in_use
from django_dbqueue.states.table import Place
from django_dbqueue.statuses import NEW

MOST_COUNTED: Final = 100_000
"""Messages up to which a stream's backlog is counted."""


def count_ready(session: Session, queue: str, limit: int) -> int:
    """Count the messages of a queue that are due, up to a limit; those that wait in their group are not."""
    found = 0
    for priority in priorities_in_use(session, queue, NEW):
        place = Place(queue, "ready", priority)
        found += int(session.fetch(depths_sql.counts(session.server, [place], limit - found))[0][0])
        if found >= limit:
            break
    return found
