"""Failure groups as people see them: how often, in what time, how many of their messages are dead now.

They are read from the newest events of each group, up to a cap, so a group of a million failures costs no more than one
of a thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django_dbqueue.databases.statement import chunks
from django_dbqueue.failures import failures_sql
from django_dbqueue.models import MessageEvent
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.counts import Capped

CAP: Final = 1_000
"""Where counting stops: the failures of a group, and those of their messages that are dead now."""
EXAMPLES: Final = 10
"""Messages of a group that are named."""
LATELY: Final = 1_000
"""How many of the newest events decide which groups come first, however long ago they were first seen."""
AT_ONCE: Final = 4
"""Groups per statement, each with up to ``CAP`` events."""
STEP: Final = 500
"""Events per statement."""
SEARCHED: Final = 10_000
"""Newest events of a group that are searched for its dead messages."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """What the newest events of a group show.

    ``dead`` is exact unless it ``is_partial``: then there are more events than were counted, and it is the number among
    those. ``event`` is the newest one of a message that is dead now, or else the newest.
    """

    count: Capped
    dead: Capped
    event: int
    since: datetime
    """The moment of the oldest event that was counted; ``last_at`` is that of the newest."""
    last_at: datetime
    messages: tuple[int, ...]
    """Message ids, the most recently failed first, with those that are dead now before the others."""

    @property
    def is_partial(self) -> bool:
        """Whether older events, which were not counted, may belong to other dead messages."""
        return self.count.more and not self.dead.more

    @property
    def may_have_dead(self) -> bool:
        """Whether a message may be dead now with this as its last failure."""
        return bool(self.dead) or self.count.more


def newest_first(session: DjangoSession, queue: str | None, limit: int) -> list[int]:
    """Return group ids, the most recently seen first; beyond the limit, those first seen long ago are left out.

    Groups whose events have all been deleted are left out too.
    """
    server = session.server
    last: dict[int, int | None] = dict(session.fetch(failures_sql.by_last_event(server, queue, limit)))
    if queue is None:
        events = MessageEvent.objects.using(session.using).order_by("-id").values_list("failure_id", "id")[:LATELY]
        last |= {number: event for number, event in reversed(list(events)) if number is not None}
    seen = {number: event for number, event in last.items() if event is not None}
    return sorted(seen, key=lambda number: (seen[number], number), reverse=True)[:limit]


def groups(session: DjangoSession, ids: Sequence[int]) -> dict[int, FailureGroup]:
    """Summarise these groups; those without an event are left out."""
    server = session.server
    events: dict[int, list[int]] = {}
    for some in chunks(ids, AT_ONCE):
        for number, event in session.fetch(failures_sql.newest_of(server, some, CAP + 1)):
            events.setdefault(number, []).append(event)
    counted = {number: sorted(found, reverse=True)[:CAP] for number, found in events.items()}
    dead: dict[int, int] = {}
    for some in chunks([event for found in counted.values() for event in found], STEP):
        dead |= dict(session.fetch(failures_sql.dead_of_events(server, some)))
    named = {number: _named(found, dead) for number, found in counted.items()}
    wanted = {event for number, found in counted.items() for event in (found[0], found[-1], *named[number])}
    rows: dict[int, tuple[int, datetime]] = {}
    for some in chunks(sorted(wanted), STEP):
        read = MessageEvent.objects.using(session.using).filter(pk__in=some).values_list("pk", "message_id", "at")
        rows |= {pk: (message, at) for pk, message, at in read}
    return {
        number: _group(len(events[number]), found, named[number], dead, rows)
        for number, found in counted.items()
        if {found[0], found[-1], *named[number]} <= rows.keys()  # others were deleted since
    }


def dead_messages(session: DjangoSession, failure: int, limit: int) -> tuple[list[int], bool]:
    """Return up to ``limit`` ids of a group's messages that are dead now, the most recently failed first.

    Only the newest ``SEARCHED`` events are searched; also return whether there are older ones.
    """
    server, found, before = session.server, list[int](), 2**63 - 1
    for _page in range(SEARCHED // STEP):
        events = [row[0] for row in session.fetch(failures_sql.newest_events_of(server, failure, before, STEP))]
        if not events:
            return found, False
        dead: dict[int, int] = dict(session.fetch(failures_sql.dead_of_events(server, events)))
        found += [dead[event] for event in events if event in dead]
        if len(found) >= limit:
            return found[:limit], False
        before = events[-1]
    return found, True


def _named(events: Sequence[int], dead: dict[int, int]) -> list[int]:
    """Return the events whose messages are examples: the newest, with those that are dead now before the others."""
    return [*[event for event in events if event in dead][:EXAMPLES], *events[:EXAMPLES]]


def _group(
    found: int, events: Sequence[int], named: Sequence[int], dead: dict[int, int], rows: dict[int, tuple[int, datetime]]
) -> FailureGroup:
    """Summarise the newest events of a group, of which ``found`` were found."""
    count = Capped(found, CAP)
    dead_now = Capped(sum(event in dead for event in events), CAP)
    dead_now.more = count.more and dead_now == CAP
    messages = tuple(dict.fromkeys(rows[event][0] for event in named))[:EXAMPLES]
    return FailureGroup(count, dead_now, named[0], rows[events[-1]][1], rows[events[0]][1], messages)
