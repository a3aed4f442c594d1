"""What handlers report, whoever calls them: 24 bytes for each call, appended whole to one file; and what follows.

Needs nothing but Python: every contestant's handlers import it, in whatever environment they run.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE = "DBQUEUE_BENCH_PROBE"
"""The variable of the environment that names the file."""
RECORD = struct.Struct("<ddq")
_ENOUGH = 0.2


class Hit(NamedTuple):
    """One call of a handler: when its message was sent, when it came (both seconds since the epoch), and where."""

    sent: float
    came: float
    process: int


def hit(sent: float = 0.0) -> None:
    """What a contestant's handler does first, and the no-op one does only."""
    os.write(_file(), RECORD.pack(sent, time.time(), os.getpid()))


@cache
def _file() -> int:
    return os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def hits_so_far(path: Path) -> int:
    return path.stat().st_size // RECORD.size if path.exists() else 0


def read_hits(path: Path) -> list[Hit]:
    """In the order of their coming; a record that is only half there is left out."""
    data = path.read_bytes()
    whole = data[: len(data) // RECORD.size * RECORD.size]
    return sorted((Hit(*record) for record in RECORD.iter_unpack(whole)), key=lambda each: each.came)


@dataclass(frozen=True, slots=True)
class Drain:
    """How a full queue was emptied. `rate` is in messages per second."""

    rate: float
    processes: int
    duplicates: int
    steady: bool
    """Whether the rate counts from the moment when all processes were at work, or from the first message on."""


def drained(hits: Sequence[Hit], messages: int, done: float) -> Drain:
    """The rate until `done`, when the last message was acknowledged (seconds since the epoch).

    It counts from the moment when every process had got a message, so that none is judged by how long it takes to
    start. Where processes are so late that less than a fifth of the work is left then, it counts from the first one.
    Calls beyond the number of messages are duplicates, and don't count as work. Raises ValueError if some are missing.
    """
    if len(hits) < messages:
        raise ValueError(f"{messages - len(hits)} of {messages} messages were never handled")
    first: dict[int, float] = {}
    for each in hits:
        first.setdefault(each.process, each.came)
    everybody = max(first.values())
    left = sum(each.came > everybody for each in hits)
    steady = left >= _ENOUGH * len(hits)
    duplicates = len(hits) - messages
    work, began = (left, everybody) if steady else (len(hits) - 1, hits[0].came)
    end = max(done, hits[-1].came)
    return Drain(max(work - duplicates, 0) / (end - began), len(first), duplicates, steady)


def delays(hits: Sequence[Hit]) -> list[float]:
    """Milliseconds from sending to the handler's start, of the messages that say when they were sent."""
    return [1000 * (each.came - each.sent) for each in hits if each.sent]
