"""When a child with nothing to do rests: asleep, while a sibling asks for it, or as the one that asks for all.

The askers of all supervisors with the same queues take turns by the clock, so that together they ask as often as one
alone would, and a message waits as long for the first of them.
"""

from __future__ import annotations

import time
import zlib
from typing import Final

from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.worker.handover import Handover
from django_dbqueue.worker.idle_poll import Fleet
from django_dbqueue.worker.maintenance import CHECK_EVERY, Maintenance
from django_dbqueue.worker.sleepers import Seat
from django_dbqueue.worker.thread_connections import leave_ended

EVERY: Final = 0.5
"""Seconds between the questions of all askers: a message waits for half of that on average."""
SLOWEST: Final = 5.0
"""Seconds between one asker's questions, however many there are: so many supervisors work on a flood after that."""
NAP: Final = 1.0
"""Seconds after which a sleeper looks, without the database, whether another child still asks for it."""
LONG: Final = 30.0
"""Seconds of sleep after which the server may have ended the session."""


class Rest:
    """One child's rest; while it is the asker, ``maintenance`` asks when it is its supervisor's turn."""

    def __init__(
        self, seat: Seat, session: DjangoSession, queues: tuple[str, ...], handover: Handover, maintenance: Maintenance
    ) -> None:
        self._seat = seat
        self._session = session
        self._phase = zlib.crc32(",".join(queues).encode()) / 2**32
        self._handover = handover
        self._maintenance = maintenance
        self._slept_since = 0.0
        self.sleeps = False
        """Whether another child asks for this one."""
        maintenance.until_turn = self._until_turn

    def begin(self, *, is_calm: bool) -> None:
        """Rest if there is nothing to do: as the asker if there is none, else asleep. If there is, let others ask."""
        poll = self._maintenance.idle_poll
        poll.asker = None
        if not is_calm:
            self._seat.rise()
            self._seat.leave_watch()
            return
        self._seat.rest()
        if self._seat.take_watch():
            poll.asker = self._seat.worker_id
        else:
            self.sleeps, self._slept_since = True, time.monotonic()

    def sleep(self, most: float) -> None:
        """Sleep until there is work, or for a moment. Whoever wakes asks before it claims: queues may be paused."""
        is_rung = self._handover.doze(min(NAP, max(0.0, most)), self._seat.bell)
        if not (is_rung or self._seat.is_called() or not self._seat.is_watched):
            return
        self.sleeps = False
        self._seat.take_watch()
        self._maintenance.wake(time.monotonic())
        if time.monotonic() - self._slept_since > LONG:
            leave_ended(self._session.using)

    def _until_turn(self, fleet: Fleet) -> float:
        """Return for how many seconds the askers of others ask first: all have the same clock, or nearly."""
        self._seat.askers = askers = 1 + fleet.before + fleet.after
        every = min(SLOWEST, EVERY * askers)
        if fleet.works:  # what comes then comes often, and somebody who works may die
            every = min(every, CHECK_EVERY)
        wait = (self._phase * every + fleet.before * EVERY - time.time()) % every
        return wait if wait > every / 4 else wait + every  # its turn has just been
