"""Memory that a child shares with its supervisor: what it has started, and what it has counted.

A slot is set before the body is decoded and cleared only after the settlement was committed, so that the
supervisor knows what was on the table when a child dies, whatever killed it (promises P7 and P8).
"""

from __future__ import annotations

import mmap
from enum import IntEnum
from typing import Final

from django_dbqueue.databases import Claim


class SlotState(IntEnum):
    """What a slot says of its message."""

    EMPTY = 0
    STARTED = 1
    SUCCEEDED = 2
    TIMED_OUT = 3


_EMPTY: Final = int(SlotState.EMPTY)
_STARTED: Final = int(SlotState.STARTED)
COUNTERS: Final = ("started", "done", "failed", "died", "given_back")


class Board:
    """Counters, and ``capacity`` slots of (state, id, token), in anonymous shared memory.

    It has no lock: in the child, slots are set and cleared under the lock of ``Holding``, and the main thread counts.
    """

    def __init__(self, capacity: int) -> None:
        self._base = len(COUNTERS) + 3
        self._cells = memoryview(mmap.mmap(-1, 8 * (self._base + 3 * capacity))).cast("q")
        self._free = list(range(capacity))
        self._capacity = capacity

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter (in the child)."""
        self._cells[COUNTERS.index(name)] += by

    def counter(self, name: str) -> int:
        """Read a counter."""
        return self._cells[COUNTERS.index(name)]

    @property
    def retry_due(self) -> float:
        """When the last retry that this child caused is due, in seconds of the monotonic clock (0: none)."""
        return self._cells[self._base - 1] / 1000

    def expect_retry(self, due: float) -> None:
        """Note that a retry will be due then, so that --drain waits for it, whoever takes this child's place."""
        self._cells[self._base - 1] = max(self._cells[self._base - 1], round(due * 1000))

    @property
    def said_farewell(self) -> bool:
        """Whether the child ended by its own decision; a handler's ``os._exit(0)`` looks like it from outside."""
        return bool(self._cells[self._base - 2])

    def say_farewell(self) -> None:
        """Note that this end is the child's own decision."""
        self._cells[self._base - 2] = 1

    @property
    def is_claiming(self) -> bool:
        """Whether the outcome of a claim is open: it may be committed after the child's death."""
        return bool(self._cells[self._base - 3])

    @is_claiming.setter
    def is_claiming(self, open_: bool) -> None:
        self._cells[self._base - 3] = open_

    def occupy(self, claim: Claim) -> int:
        """Note that this message is about to start; return its slot."""
        slot, cells = self._free.pop(), self._cells
        at = self._base + 3 * slot
        cells[at + 1], cells[at + 2] = claim.id, claim.token or 0
        cells[at] = _STARTED
        cells[0] += 1
        return slot

    def mark(self, slot: int, state: SlotState) -> None:
        """Note how far the message of a slot has come."""
        self._cells[self._base + 3 * slot] = int(state)

    def clear(self, slot: int) -> None:
        """Note that the settlement of this slot's message was committed."""
        self._cells[self._base + 3 * slot] = _EMPTY
        self._free.append(slot)

    def standing(self) -> dict[SlotState, list[Claim]]:
        """Read what stands in the slots, by state (in the supervisor, after the child's death)."""
        found: dict[SlotState, list[Claim]] = {state: [] for state in SlotState if state}
        for at in range(self._base, self._base + 3 * self._capacity, 3):
            state = SlotState(self._cells[at])
            if state:
                found[state].append(Claim(self._cells[at + 1], self._cells[at + 2]))
        return found
