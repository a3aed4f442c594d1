"""Failure groups as people see them: how often, when last, how many of their messages are dead now.

They are read from the newest events of each group, up to a cap, so a group of a million failures costs no more than one
of a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django_dbqueue.counts import Capped
from django_dbqueue.lifecycle.django_session import DjangoSession, chunks

CAP: Final = 100
"""Where counting stops: the failures of a group, and those of their messages that are dead now."""
LATELY: Final = 1_000
"""How many of the newest events decide which groups come first, however long ago they were first seen."""
AT_ONCE: Final = 50
"""Groups per statement."""


@dataclass(frozen=True, slots=True)
class Group:
    """What the newest events of a group show."""

    count: Capped
    dead: Capped
    last_at: object
    """When it was last seen, as the cursor returned it; None if its events have been deleted."""
    messages: tuple[int, ...]
    """Message ids, the most recently failed first, with those that are dead now before the others."""


NOTHING: Final = Group(Capped(0, CAP), Capped(0, CAP), None, ())


def newest_first(session: DjangoSession, queue: str | None, limit: int) -> list[int]:
    """Return group ids, the most recently seen first; beyond the limit, those first seen long ago are left out."""
    dialect = session.dialect
    last: dict[int, object] = dict(session.fetch(dialect.failures.by_last_event(queue, limit)))
    if queue is None:
        last |= dict(session.fetch(dialect.failures.of_newest_events(LATELY)))
    return sorted(last, key=lambda number: (last[number] or 0, number), reverse=True)[:limit]


def groups(session: DjangoSession, ids: Sequence[int]) -> dict[int, Group]:
    """Summarise these groups; those without an event are left out."""
    found: dict[int, Group] = {}
    dialect = session.dialect
    for chunk in chunks(ids, AT_ONCE):
        by_group: dict[int, list[tuple[int, int, object]]] = {}
        for number, event, message, at in session.fetch(dialect.failures.newest_of(chunk, CAP + 1)):
            by_group.setdefault(number, []).append((event, message, at))
        events = [event for rows in by_group.values() for event, _message, _at in rows[:CAP]]
        dead = {
            row[0] for part in chunks(events, CAP * 10) for row in session.fetch(dialect.failures.dead_of_events(part))
        }
        found |= {number: _group(sorted(rows, reverse=True), dead) for number, rows in by_group.items()}
    return found


def _group(rows: list[tuple[int, int, object]], dead: set[int]) -> Group:
    """Summarise the newest events of a group, the newest first."""
    seen = rows[:CAP]
    count = Capped(len(rows), CAP)
    dead_now = Capped(sum(event in dead for event, _message, _at in seen), CAP)
    dead_now.more = count.more
    first = [message for event, message, _at in seen if event in dead]
    messages = dict.fromkeys([*first, *(message for _event, message, _at in seen)])
    return Group(count, dead_now, seen[0][2], tuple(messages))
