"""Memory that a child shares with its supervisor: what it has started, and what it has counted.

A slot is set before the body is decoded and cleared only after the settlement was committed, so the supervisor knows
what was in progress when a child dies, whatever killed it (promises P7 and P8).
"""

from __future__ import annotations

import mmap
import time
from enum import IntEnum
from typing import Final

from django_dbqueue.databases import Claim
from django_dbqueue.worker.drain import DRAIN_WAITS


class SlotState(IntEnum):
    """The state of a slot's message."""

    EMPTY = 0
    STARTED = 1
    SUCCEEDED = 2
    TIMED_OUT = 3
    RETURNED = 4
    """It succeeded, with a result that only this child has."""


class Retirement(IntEnum):
    """How far a child is that retires to be recycled; it only grows."""

    NONE = 0
    RETIRES = 1
    """It claims no more."""
    HAS_ROOM = 2
    """A thread of it has nothing left to do, so its successor may claim."""
    HAS_ENDED = 3
    """All that it began is settled."""


_EMPTY: Final = int(SlotState.EMPTY)
_STARTED: Final = int(SlotState.STARTED)
_SUCCEEDED: Final = int(SlotState.SUCCEEDED)
_RETURNED: Final = int(SlotState.RETURNED)
_CELLS: Final = 4
_NEVER: Final = 2**63 - 1
COUNTERS: Final = ("started", "done", "failed", "died", "given_back", "cut_off", "suspended")


class Board:
    """Counters, and ``capacity`` slots of (state, id, token, timeout), in anonymous shared memory.

    It has no lock: in the child, slots are set and cleared under the lock of ``Holding``, and only the main thread
    counts.
    """

    def __init__(self, capacity: int) -> None:
        self._base = len(COUNTERS) + 7
        self._cells = memoryview(mmap.mmap(-1, 8 * (self._base + _CELLS * capacity))).cast("q")
        self._free = list(range(capacity))
        self._capacity = capacity
        self.turned_at = time.monotonic()

    def detach(self) -> None:
        """Stop sharing anything with the supervisor (in a process that a handler forked from the child)."""
        self._cells = memoryview(bytearray(self._cells)).cast("q")

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter (in the child)."""
        self._cells[COUNTERS.index(name)] += by

    def counter(self, name: str) -> int:
        """Read a counter."""
        return self._cells[COUNTERS.index(name)]

    @property
    def retry_due(self) -> float:
        """Return when the last message that --drain waits for is due, in seconds of the monotonic clock (0: none)."""
        return self._cells[self._base - 1] / 1000

    def expect_retry(self, due: float) -> None:
        """Note that a message will be due again then: --drain waits for it, whichever child takes this one's place.

        It doesn't wait for one that is due much later, which must not hide another one.
        """
        if due <= time.monotonic() + DRAIN_WAITS:
            self._cells[self._base - 1] = max(self._cells[self._base - 1], round(due * 1000))

    @property
    def is_leaving(self) -> bool:
        """Return whether it ends, or is ended, on purpose; from outside, a handler's ``os._exit(0)`` looks the same."""
        return bool(self._cells[self._base - 2])

    def note_leaving(self) -> None:
        """Note that the child ends, or is ended, on purpose."""
        self._cells[self._base - 2] = 1

    @property
    def is_claiming(self) -> bool:
        """Return whether the outcome of a claim is open: it may be committed after the child's death."""
        return bool(self._cells[self._base - 3])

    @is_claiming.setter
    def is_claiming(self, open_: bool) -> None:
        self._cells[self._base - 3] = open_

    @property
    def unserved_named(self) -> int:
        """Return how many queues without a consumer were reported, so that a replacement child reports none again."""
        return self._cells[self._base - 4]

    @unserved_named.setter
    def unserved_named(self, number: int) -> None:
        self._cells[self._base - 4] = number

    @property
    def turned_at(self) -> float:
        """Return when the child's loop last began a turn, in seconds of the monotonic clock."""
        return self._cells[self._base - 5] / 1000

    @turned_at.setter
    def turned_at(self, moment: float) -> None:
        self._cells[self._base - 5] = round(moment * 1000)

    @property
    def retirement(self) -> Retirement:
        """Return how far the child has retired."""
        return Retirement(self._cells[self._base - 6])

    def note_retirement(self, stage: Retirement) -> None:
        """Note how far the child has retired (in the child; in the supervisor after its death)."""
        self._cells[self._base - 6] = max(self._cells[self._base - 6], int(stage))

    @property
    def tidies_at(self) -> float | None:
        """Return when the child in this place is to tidy next, in seconds of the monotonic clock; None: it decides."""
        return self._cells[self._base - 7] / 1000 or None

    @tidies_at.setter
    def tidies_at(self, moment: float | None) -> None:
        self._cells[self._base - 7] = round((moment or 0.0) * 1000)

    def occupy(self, claim: Claim, over_at: float | None = None) -> int:
        """Note that this message is about to start, and when it times out; return its slot."""
        slot, cells = self._free.pop(), self._cells
        at = self._base + _CELLS * slot
        cells[at + 1], cells[at + 2] = claim.id, claim.token or 0
        cells[at + 3] = _NEVER if over_at is None else round(over_at * 1000)
        cells[at] = _STARTED
        cells[0] += 1
        return slot

    def restart(self, slot: int, over_at: float | None) -> None:
        """Note that the message of a slot starts only now."""
        self.time_out_at(slot, over_at)
        self.mark(slot, SlotState.STARTED)

    def time_out_at(self, slot: int, over_at: float | None) -> None:
        """Note when the message of a slot times out."""
        self._cells[self._base + _CELLS * slot + 3] = _NEVER if over_at is None else round(over_at * 1000)

    def mark(self, slot: int, state: SlotState) -> None:
        """Note how far the message of a slot has come."""
        self._cells[self._base + _CELLS * slot] = int(state)

    def stop_clock(self, slot: int, *, succeeded: bool, has_result: bool) -> None:
        """Note that the handler of a slot has ended: no timeout applies any more, however long its settlement takes."""
        at = self._base + _CELLS * slot
        self._cells[at + 3] = _NEVER
        if succeeded:
            self._cells[at] = _RETURNED if has_result else _SUCCEEDED

    def is_overdue(self, moment: float) -> bool:
        """Return whether a handler is running whose timeout had passed by then (in the supervisor)."""
        return any(self._cells[at] and self._cells[at + 3] < moment * 1000 for at in self._slots())

    def mark_overdue(self, moment: float) -> None:
        """Note which timeouts had passed by then (in the supervisor, after the child's death)."""
        for at in self._slots():
            if self._cells[at] == _STARTED and self._cells[at + 3] < moment * 1000:
                self._cells[at] = int(SlotState.TIMED_OUT)

    def clear(self, slot: int) -> None:
        """Note that the settlement of this slot's message was committed."""
        self._cells[self._base + _CELLS * slot] = _EMPTY
        self._free.append(slot)

    def claims_by_state(self) -> dict[SlotState, list[Claim]]:
        """Return the claims in the slots, by state (in the supervisor, after the child's death)."""
        found: dict[SlotState, list[Claim]] = {state: [] for state in SlotState if state}
        for at in self._slots():
            state = SlotState(self._cells[at])
            if state:
                found[state].append(Claim(self._cells[at + 1], self._cells[at + 2]))
        return found

    def _slots(self) -> range:
        return range(self._base, self._base + _CELLS * self._capacity, _CELLS)
