"""How many rows of each kind, and the names of the queues that they are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows there are of each kind; ``share`` is the hot queues' part of each state."""

    ready: int
    delayed: int
    running: int
    stuck: int
    dead: int
    done: int
    waiting: int
    groups: int
    archived: int
    queues: int
    share: float
    hours: int
    minutes: int
    failures: int
    operations: int
    workers: int
    logged: int

    @property
    def messages(self) -> int:
        """Rows of the hot table."""
        return self.ready + self.delayed + self.running + self.stuck + self.dead + self.done + self.waiting


SMALL: Final = Size(
    ready=30_000,
    delayed=30_000,
    running=28_000,
    stuck=28_000,
    dead=28_000,
    done=30_000,
    waiting=30_000,
    groups=21_000,
    archived=30_000,
    queues=200,
    share=0.75,
    hours=200,
    minutes=150,
    failures=1_000,
    operations=21_000,
    workers=40,
    logged=21_000,
)
"""Small enough for each run of the tests; each queue that is hot has more than 20,000 rows in one state."""
TEN_MILLION: Final = Size(
    ready=1_000_000,
    delayed=1_000_000,
    running=9_000,
    stuck=1_000,
    dead=100_000,
    done=7_490_000,
    waiting=400_000,
    groups=100_000,
    archived=500_000,
    queues=200,
    share=0.25,
    hours=24 * 60,
    minutes=24 * 60,
    failures=2_000,
    operations=21_000,
    workers=200,
    logged=100_000,
)
TASK: Final = "shop.tasks.charge"
"""The task that some messages of each state are."""
KEY: Final = "same"
"""Of every done message of the queue that most of them are in."""
GROUP: Final = "hot"
"""The group, of the hot queue of those that wait, that most of them are in."""
WIDE: Final = "wide"
"""The one that has most places."""
HOT: Final = {"ready": 0, "delayed": 1, "running": 2, "stuck": 3, "dead": 4, "done": 5, "waiting": 6}
"""The number of the queue that most rows of a state are in."""


def name_of(number: int) -> str:
    return f"queue-{1000 + number}"


def hot(state: str) -> str:
    return name_of(HOT[state])
