"""The faults that can be injected, and the plan of a run: what happens when, and to whom. A seed repeats it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

KILL: Final = "kill"
WORKER: Final = "worker"
STOP: Final = "stop"
RESTART: Final = "restart"
SESSION: Final = "session"
SENDER: Final = "sender"
FAIL: Final = "fail"
ROLLBACK: Final = "rollback"

TIMED: Final = (KILL, WORKER, STOP, RESTART, SESSION, SENDER)
"""Faults that happen at a time of the plan."""
BUILT_IN: Final = (FAIL, ROLLBACK)
"""Faults that senders and handlers draw themselves, message by message."""
FAULTS: Final = (*TIMED, *BUILT_IN)

_SHORTEST_GAP: Final = 0.4
_LONGEST_GAP: Final = 1.6
"""Seconds between two faults."""
_QUIET_START: Final = 1.0
"""Seconds before the first fault, once there is something to disturb."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens ``at`` so many seconds into the run; ``target`` picks one of the processes that it could hit."""

    at: float
    kind: str
    target: int


def plan(seed: int, *, seconds: float, kinds: Iterable[str]) -> list[Fault]:
    """Return the faults of a run, in order; each chosen kind once before any comes again, as far as time allows."""
    chosen = sorted(set(kinds) & set(TIMED))
    dice = random.Random(seed)
    faults: list[Fault] = []
    at, round_ = _QUIET_START, list[str]()
    while chosen and at < seconds:
        if not round_:
            round_ = dice.sample(chosen, len(chosen))
        faults.append(Fault(round(at, 3), round_.pop(), dice.randrange(1_000_000)))
        at += dice.uniform(_SHORTEST_GAP, _LONGEST_GAP)
    return faults
