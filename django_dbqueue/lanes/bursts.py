"""Bursts: what is idle lets more of a group run than its limit, as long as it is idle (``group_burst``).

A worker whose claim came back short, and that has threads without work, gives tickets above ``group_limit`` to groups
that wait, one each in turn. Such a ticket ends with its message. So a tenant with many messages uses what nobody else
needs, and one that comes later finds no more than ``group_burst`` of them before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django_dbqueue import conf
from django_dbqueue.keys import LANES, first_lane
from django_dbqueue.lanes.kick import kick
from django_dbqueue.lanes.walk import lanes_in_use
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.settable.rates import interval_of

STEP: Final = 200
"""Lanes that one statement looks for."""


@dataclass(slots=True)
class Bursts:
    """Burst tickets of one queue; it remembers which group was the last to have one."""

    session: DjangoSession
    queue: str
    _last: int = -1

    def give(self, most: int) -> int:
        """Give up to ``most`` tickets to groups that wait; return how many."""
        options = conf.queue_options(self.queue)
        interval = None if options.group_rate is None else interval_of(options.group_rate)
        most_at_once = max(options.group_limit, options.group_burst or 0)
        given = 0
        while given < most and (lanes := self._next(min(STEP, most - given))):
            moved = kick(
                self.session,
                lanes,
                lambda _: most_at_once,
                interval_of=lambda _: interval,
                most_of=lambda _: most_at_once,
                once=True,
            )
            given += len(moved)
            if not moved:
                break
        return given

    def _next(self, number: int) -> list[int]:
        """Return the next lanes of the queue in which somebody waits, from the first again after the last."""
        first = first_lane(self.queue)
        begin, end = max(self._last, first - 1), first + LANES - 1
        found = [each for each in lanes_in_use(self.session, begin, number) if each.lane <= end]
        if len(found) < number and begin >= first:
            others = lanes_in_use(self.session, first - 1, number - len(found))
            found += [each for each in others if each.lane <= begin]
        self._last = found[-1].lane if found else -1
        return [each.lane for each in found if each.queue == self.queue]
