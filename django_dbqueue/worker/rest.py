"""When a child with nothing to do rests: asleep, while a sibling asks for it, or as the one that asks for all.

The askers of all supervisors with the same queues take turns by the clock. Together they ask as often as one alone
would, and a message waits as long for the first of them. Where notices wake them, or the operator wants it so, they ask
seldom: each poll then says when something is due next.
"""

from __future__ import annotations

import math
import time
import zlib
from typing import Final

from django_dbqueue.liveness.late_workers import BEAT_RESTING
from django_dbqueue.statements import enqueue_sql
from django_dbqueue.worker import timetable as timetables
from django_dbqueue.worker.handover import Handover
from django_dbqueue.worker.maintenance import CHECK_EVERY, Maintenance
from django_dbqueue.worker.pace import Listener
from django_dbqueue.worker.sleepers import Seat
from django_dbqueue.worker.timetable import Timetable
from django_dbqueue.worker.worker_options import WorkerOptions

EVERY: Final = 0.5
"""Seconds between the questions of all askers: a message waits for half of that on average.

A child that is alone in the world asks only as often as it always did, unless the operator wants it sooner.
"""
NOTIFIED: Final = 20.0
"""The same where notices arrive, for what sends none."""
AT_MOST: Final = 10
"""However many askers there are, each asks after this many times as long at the latest: all help with a flood."""
STIRRED: Final = 10.0
"""Seconds for which they ask as often as they can after a sign of work: somebody may die of it."""
SPREAD_FROM: Final = 4.0
"""Seconds: where they ask more seldom, what is done for all is done more seldom in proportion."""
NAP: Final = 1.0
"""Seconds after which a sleeper checks, without the database, whether another child still asks for it."""
_PROBE: Final = "?"
"""A notice that names no queue: whoever hears it knows that notices arrive."""
_PROBE_EVERY: Final = 10.0


class Rest:
    """One child's rest; while it is the asker, ``maintenance`` asks when it is its supervisor's turn."""

    def __init__(
        self, seat: Seat, options: WorkerOptions, handover: Handover, maintenance: Maintenance, timetable: Timetable
    ) -> None:
        self._seat = seat
        self._session = options.session
        self._idle_interval = options.idle_interval
        self._phase = zlib.crc32(",".join(options.queues).encode()) / 2**32
        self._handover = handover
        self._maintenance = maintenance
        self._timetable = timetable
        self._listener: Listener | None = None
        self._stirred_at = self._probed_at = 0.0
        self.sleeps = False
        """Whether another child asks for this one."""
        maintenance.idle_poll.knows_next = (options.idle_interval or 0.0) > CHECK_EVERY

    def listen(self, listener: Listener | None) -> None:
        """Rely on this listener, as far as it hears anything."""
        self._listener = listener
        if listener is not None:
            self._maintenance.idle_poll.knows_next = True

    def stir(self) -> None:
        """Check at once, and often for a while (in the thread that listens, too): something has come."""
        self._stirred_at = time.monotonic()
        if self._maintenance.until_turn is not None:
            self._maintenance.hasten()
            self._timetable.hasten()

    def begin(self, *, is_calm: bool) -> None:
        """Rest if there is nothing to do: as the asker if there is none, else asleep. If there is, let others ask."""
        if not is_calm:
            self._seat.rise()
            self._seat.leave_watch()
            self._ask_for_all(asks=False)
            return
        self._seat.rest()
        asks = self._seat.take_watch()
        self._ask_for_all(asks=asks)
        self.sleeps = not asks

    def sleep(self, most: float) -> None:
        """Sleep until there is work, or for a moment. Whoever wakes asks before it claims: queues may be paused."""
        is_rung = self._handover.doze(min(NAP, max(0.0, most)), self._seat.bell)
        if not (is_rung or self._seat.is_called() or not self._seat.is_watched):
            return
        self.sleeps, self._stirred_at = False, time.monotonic()
        self._seat.take_watch()
        self._maintenance.wake(self._stirred_at)

    def _ask_for_all(self, *, asks: bool) -> None:
        maintenance = self._maintenance
        if asks == (maintenance.until_turn is not None):
            return
        maintenance.idle_poll.asker = self._seat.worker_id if asks else None
        maintenance.until_turn = self._until_turn if asks else None
        maintenance.hasten(time.monotonic() + (EVERY if asks else CHECK_EVERY))
        if not asks:
            now = time.monotonic()
            maintenance.rest_no_longer(now)
            self._timetable.at_most = timetables.CHECK_EVERY
            self._timetable.hasten(now + timetables.CHECK_EVERY)

    def _until_turn(self) -> float:
        """Return in how many seconds to ask again; all askers have the same clock, or nearly.

        Those that ask more seldom than rows are beaten ask at the same moment, so that a server is woken once for all.
        """
        poll, now = self._maintenance.idle_poll, time.monotonic()
        if poll.saw_movement:
            self._stirred_at = now
        askers = 1 + poll.fleet.before + poll.fleet.after
        interval = self._interval(now, is_alone=askers == 1 and self._seat.is_alone)
        is_rare = interval > BEAT_RESTING
        every = interval if is_rare else min(AT_MOST, askers) * interval
        if poll.fleet.works:
            every = min(every, CHECK_EVERY)
        self._maintenance.spread = spread = askers * max(1.0, interval / SPREAD_FROM)
        self._maintenance.askers = askers
        self._timetable.at_most = min(timetables.AT_REST, max(timetables.CHECK_EVERY, every))
        beat_every = math.ceil(1.5 * interval) if is_rare else BEAT_RESTING
        self._seat.note_question(spread=spread, beat_every=beat_every)
        turn = 0.0 if is_rare else poll.fleet.before * interval
        wait = (self._phase * every + turn - time.time()) % every
        wait = wait if wait > every / 4 else wait + every  # its turn has just been
        return min(wait, max(0.0, poll.next_due))

    def _interval(self, now: float, *, is_alone: bool) -> float:
        """Return how many seconds may lie between the questions of all askers."""
        often = CHECK_EVERY if is_alone else EVERY
        if self._idle_interval is not None:
            often = min(often, self._idle_interval)
        if now - self._stirred_at < STIRRED:
            return often
        if self._idle_interval is not None:
            return self._idle_interval
        return NOTIFIED if self._hears(now) else often

    def _hears(self, now: float) -> bool:
        """Return whether notices arrive; send one if none has yet."""
        if self._listener is None or self._listener.hears:
            return self._listener is not None
        if now - self._probed_at > _PROBE_EVERY:
            self._probed_at = now
            self._session.fetch(enqueue_sql.notify(_PROBE))
        return False
