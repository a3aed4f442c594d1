"""How many messages a batch of a stream has, and how long a small one waits: the same options for both streams.

A limit that a Python source gives to Spark 4.3 is a largest or a least number of rows, and never both, nor a longest
wait, which Spark's own Kafka source has. So the source itself finds no new offset as long as too little is there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Self

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.spark.source_options import Options

MAX_MESSAGES: Final = "maxMessagesPerTrigger"
MIN_MESSAGES: Final = "minMessagesPerTrigger"
MAX_DELAY: Final = "maxTriggerDelay"
OPTIONS: Final = (MAX_MESSAGES, MIN_MESSAGES, MAX_DELAY)
DELAY_SECONDS: Final = 900
LONGEST_DELAY: Final = 7 * 86_400


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """The most messages of a batch; and how many it waits for, and for how many seconds since the last batch."""

    most: int
    least: int = 1
    delay: float = 0.0

    @classmethod
    def of(cls, options: Options, default: int, *, most: int) -> Self:
        """Read the options; InvalidPipeline if they contradict each other."""
        chosen = options.whole(MAX_MESSAGES, default, most=most)
        least = options.whole(MIN_MESSAGES, 1, most=most)
        if least > chosen:
            raise InvalidPipeline(
                f"The option {MIN_MESSAGES!r} is {least:,}, but a batch has {chosen:,} messages at most: set "
                f"{MAX_MESSAGES!r} to {least:,} or more."
            )
        if options.text(MIN_MESSAGES) is None and options.text(MAX_DELAY) is not None:
            raise InvalidPipeline(
                f"The option {MAX_DELAY!r} says how long a batch waits for {MIN_MESSAGES!r}, which is not set: set "
                "both, or leave both out."
            )
        return cls(chosen, least, float(options.whole(MAX_DELAY, DELAY_SECONDS, most=LONGEST_DELAY)))


class SmallBatch:
    """The wait of a batch that would be small, counted from the last batch, or from the beginning of the query."""

    def __init__(self, limits: TriggerLimits) -> None:
        self._limits = limits
        self.begin()

    def begin(self) -> None:
        """Start waiting again: a batch has begun."""
        self._end = time.monotonic() + self._limits.delay

    @property
    def least(self) -> int:
        """How many messages a batch waits for now; 0 if it doesn't wait, or no longer."""
        return self._limits.least if self._limits.least > 1 and time.monotonic() < self._end else 0

    def earlier(self, moment: float) -> float:
        """Return a moment of the monotonic clock; or the end of the wait, if that is earlier and still to come."""
        return min(moment, self._end) if self.least else moment
