"""How handlers tell what they had, the same for the floor, the queue's worker and others: 24 bytes in one file.

A rate counts from the moment when every process has had a message until the queue is empty *and* acknowledged. So
neither the start of a process nor an answer that is still on its way is taken for work.
"""

from __future__ import annotations

import os
import struct
import time
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATH: Final = "DBQUEUE_BENCH_PROBE"
"""The environment variable that names the file."""
PATIENCE: Final = 60.0
"""Seconds without a new hit after which a run has failed."""
_COUNTED_AT_LEAST: Final = 0.2
_HIT: Final = struct.Struct("<qdq")


class Hit(NamedTuple):
    """A message was handled."""

    number: int
    at: float
    pid: int


def hit(number: int) -> None:
    """Say that the message of this number was handled now by this process."""
    os.write(_file(os.environ[PATH]), _HIT.pack(number, time.time(), os.getpid()))


@cache
def _file(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


class Probe:
    """The file, read by who measures."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.empty()

    def empty(self) -> None:
        """Forget what was told before."""
        self.path.write_bytes(b"")

    @property
    def count(self) -> int:
        """How many hits there are so far."""
        return self.path.stat().st_size // _HIT.size

    def hits(self) -> list[Hit]:
        """All, in order of time."""
        return sorted((Hit(*each) for each in _HIT.iter_unpack(self.path.read_bytes())), key=lambda hit: hit.at)

    def wait_for(self, count: int, still_alive: Callable[[], None]) -> None:
        """Return when there are so many; `still_alive` raises when they can't come any more."""
        seen, last = 0, time.monotonic()
        while (found := self.count) < count:
            if found > seen:
                seen, last = found, time.monotonic()
            if time.monotonic() - last > PATIENCE:
                raise AssertionError(f"{found:,} of {count:,} messages were handled, and then none for {PATIENCE:g} s")
            still_alive()
            time.sleep(0.005)

    def check_each_once(self, count: int) -> None:
        """Every number below `count` came, and once: nothing was lost, nothing doubled."""
        numbers = [each.number for each in self.hits()]
        doubled, lost = len(numbers) - len(set(numbers)), len(set(range(count)) - set(numbers))
        if doubled or lost:
            raise AssertionError(f"{doubled:,} of {count:,} messages were handled twice, {lost:,} were lost")


def rate(hits: list[Hit], end: float) -> float:
    """Messages per second from the moment when every process that had messages had its first, to the end.

    Where one came to its first so late that little is left to count, as behind SQLite's one lock, it is the rate from
    the very first message.
    """
    first: dict[int, float] = {}
    for each in hits:
        first.setdefault(each.pid, each.at)
    for began in (max(first.values()), hits[0].at):
        counted = sum(began < each.at <= end for each in hits)
        if counted >= len(hits) * _COUNTED_AT_LEAST:
            return counted / (end - began)
    raise AssertionError(f"nothing to count in {len(hits):,} messages")
