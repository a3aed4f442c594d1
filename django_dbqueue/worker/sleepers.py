"""Which of a supervisor's children asks for all of them while they have nothing to do; the others sleep.

The asker has the watch, and renews it at each turn. When it has found work, it leaves the watch and wakes the next one,
which asks at once: so as many wake as there is work for. A watch that isn't renewed, because its child ended or is
stuck, is taken by whoever notices. Two askers cost a statement more and harm nothing, so nothing here is locked.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import Final

from django_dbqueue.databases.statement import new_token
from django_dbqueue.worker.demotion import REFUSED_AT

STUCK: Final = 3.0
"""Seconds without a turn after which an asker counts as stuck, and another child asks."""
ALIVE: Final = 3.0
"""Seconds within which a child's heartbeat must have run for the asker's to vouch for it."""
SIBLINGS: Final = 2**16
"""The ids of one supervisor's children differ only in the rest by this: so databases count supervisors."""
_ASKER, _UNTIL, _QUESTION_AT, _SPREAD, _BEAT_EVERY, _REFUSED_AT, _SHARED = range(7)
_RESTS, _ALIVE_AT, _IS_SLOW, _VOUCHED_AT, _VOUCHED_FOR, _CELLS = range(6)


class Sleepers:
    """Memory and a pipe that the children of a supervisor share: who asks, who rests, and what wakes them."""

    def __init__(self, places: int) -> None:
        self.cells = memoryview(mmap.mmap(-1, 8 * (_SHARED + _CELLS * places))).cast("q")
        self.cells[_SPREAD] = 1
        self._places = range(_SHARED, _SHARED + _CELLS * places, _CELLS)
        self._bell, self._rope = Pipe(duplex=False)
        for end in (self._bell, self._rope):
            os.set_blocking(end.fileno(), False)
        self._next_id = self._last_id = 0

    def seat(self, index: int) -> Seat:
        """Return a new child's seat, and with it its id (in the supervisor)."""
        if self._next_id == self._last_id:
            self._next_id = max(1, new_token() // SIBLINGS) * SIBLINGS
            self._last_id = self._next_id + SIBLINGS - 1
        self._next_id += 1
        return Seat(self, self._places[index], self._next_id - 1)

    def end(self, worker_id: int) -> None:
        """Note that this child has ended; if it asked, let another one do so (in the supervisor)."""
        for at in self._places:
            if self.cells[at + _RESTS] == worker_id:
                self.cells[at + _RESTS] = self.cells[at + _IS_SLOW] = 0
        self.pass_watch(worker_id)

    def pass_watch(self, worker_id: int) -> None:
        """Let another child ask, at once, if this one does or did."""
        if self.cells[_ASKER] == worker_id:
            self.cells[_ASKER] = self.cells[_UNTIL] = 0
            self.ring(1)

    def resting(self) -> Iterator[int]:
        """Yield the places of children that rest, the asker's among them."""
        return (at for at in self._places if self.cells[at + _RESTS])

    def ring(self, most: int) -> None:
        """Wake that many sleepers, or all if there are fewer."""
        asker = self.cells[_ASKER]
        asleep = sum(self.cells[at + _RESTS] != asker for at in self.resting())
        with suppress(BlockingIOError):  # nobody has read what is in the pipe, so all are about to wake
            os.write(self._rope.fileno(), b"." * min(most, asleep))

    @property
    def is_for_one(self) -> bool:
        """Return whether there is one place only."""
        return len(self._places) == 1

    @property
    def bell(self) -> int:
        """Return the descriptor that is readable when a sleeper is to wake."""
        return self._bell.fileno()


class Seat:
    """A child's part of it. Its main thread rests, rises and keeps the watch; its heartbeat says that it lives."""

    def __init__(self, sleepers: Sleepers, at: int, worker_id: int) -> None:
        self._sleepers = sleepers
        self._cells = sleepers.cells
        self._at = at
        self.worker_id = worker_id

    # -- the main thread ----------------------------------------------------------------------------------

    def rest(self) -> None:
        """Have nothing to do."""
        self._cells[self._at + _RESTS] = self.worker_id

    def rise(self) -> None:
        """Have something to do, or check whether there is."""
        if self.rests:
            self._cells[self._at + _RESTS] = self._cells[self._at + _IS_SLOW] = 0

    def take_watch(self) -> bool:
        """Take the watch if nobody keeps it, or renew it; return whether this child asks for all."""
        if self.is_watched and not self.asks:
            return False
        self._cells[_ASKER] = self.worker_id
        self._cells[_UNTIL] = _ms(time.monotonic() + STUCK)
        return True

    def leave_watch(self) -> None:
        """Let another child ask, at once, if this one does."""
        if self.asks:
            self._cells[_SPREAD] = 1
            self._sleepers.pass_watch(self.worker_id)

    def share_refusal(self, alias: str) -> None:
        """Learn from the others, or tell them, when a server last refused to write: who sleeps writes nothing."""
        own, of_all = round(REFUSED_AT.get(alias, 0.0) * 1e6), self._cells[_REFUSED_AT]
        if own > of_all:
            self._cells[_REFUSED_AT] = own
        elif own < of_all:
            REFUSED_AT[alias] = of_all / 1e6

    def wake_all(self) -> None:
        """Wake all others, whose sessions ended together with this one's."""
        self._sleepers.ring(SIBLINGS)

    def is_called(self) -> bool:
        """Return whether a ring was for this child: each wakes one."""
        with suppress(BlockingIOError):
            return bool(os.read(self.bell, 1))
        return False

    @property
    def bell(self) -> int:
        """Return the descriptor that is readable when a sleeper is to wake."""
        return self._sleepers.bell

    @property
    def is_watched(self) -> bool:
        """Return whether an asker has turned lately."""
        return self._cells[_UNTIL] > _ms(time.monotonic())

    @property
    def asks(self) -> bool:
        """Return whether this child is the asker."""
        return self._cells[_ASKER] == self.worker_id

    @property
    def rests(self) -> bool:
        """Return whether this child rests. A successor's place is its predecessor's too."""
        return self._cells[self._at + _RESTS] == self.worker_id

    @property
    def spread(self) -> int:
        """Return how many times less often each asker does what is to be done once for all."""
        return self._cells[_SPREAD]

    @property
    def is_alone(self) -> bool:
        """Return whether its supervisor has no other children."""
        return self._sleepers.is_for_one

    def note_question(self, *, spread: float, beat_every: int) -> None:
        """Note that this asker has just asked, what is to be done less often, and what rows of the resting promise."""
        self._cells[_SPREAD], self._cells[_BEAT_EVERY] = round(spread), beat_every
        self._cells[_QUESTION_AT] = _ms(time.monotonic())

    # -- the heartbeat ------------------------------------------------------------------------------------

    def note_beat(self, *, is_slow: bool) -> None:
        """Note that this child lives, and whether its row promises no more than the beats of one that rests."""
        if self.rests:
            self._cells[self._at + _ALIVE_AT] = _ms(time.monotonic())
            self._cells[self._at + _IS_SLOW] = is_slow

    def vouched(self) -> list[int]:
        """Return the ids for which the asker's heartbeat may beat; nothing if this is not the asker's."""
        if not (self.asks and self.rests and self._cells[self._at + _IS_SLOW]):
            return []
        since = _ms(time.monotonic() - ALIVE)
        return [self._cells[at + _RESTS] for at in self._slow() if self._cells[at + _ALIVE_AT] >= since]

    def note_vouched(self, ids: list[int], moment: float, every: int) -> None:
        """Note that the rows of these were beaten at this moment, by the monotonic clock, and what they promise now."""
        for at in self._slow():
            if self._cells[at + _RESTS] in ids:
                self._cells[at + _VOUCHED_FOR] = every
                self._cells[at + _VOUCHED_AT] = _ms(moment)

    @property
    def vouched_at(self) -> float:
        """Return when the asker last beat for this child, while it rests; 0.0: never, so it beats itself."""
        return self._cells[self._at + _VOUCHED_AT] / 1000 if self.rests else 0.0

    @property
    def vouched_for(self) -> int:
        """Return for how many seconds it did."""
        return self._cells[self._at + _VOUCHED_FOR]

    @property
    def beat_every(self) -> int:
        """Return what the row of a child that rests is to promise, in seconds; 0: no asker has asked yet."""
        return self._cells[_BEAT_EVERY]

    @property
    def question_at(self) -> float:
        """Return when an asker last asked, by the monotonic clock."""
        return self._cells[_QUESTION_AT] / 1000

    def _slow(self) -> Iterator[int]:
        return (at for at in self._sleepers.resting() if self._cells[at + _IS_SLOW])


def _ms(moment: float) -> int:
    return round(moment * 1000)
