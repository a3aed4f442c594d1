"""Histograms of times that can be added up: counts by the logarithm of the time, 32 buckets to each doubling.

The middle of a bucket differs by at most 1/64 from any value in it. Up to 63 microseconds, each microsecond has its
own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final

_BITS: Final = 5
_SHARE: Final = 1 << _BITS


def bucket_of(micros: int) -> int:
    """Return the bucket of a time in microseconds; a negative one, from a clock that was set back, counts as 0."""
    micros = max(0, micros)
    shift = max(0, micros.bit_length() - _BITS - 1)
    return (shift << _BITS) + (micros >> shift)


def seconds_of(bucket: int) -> float:
    """Return the middle of a bucket, in seconds."""
    shift = max(0, (bucket >> _BITS) - 1)
    low = (bucket - (shift << _BITS)) << shift
    return (low + ((1 << shift) - 1) / 2) / 1_000_000


class Histogram(Counter[int]):
    """How many times fell into each bucket."""

    def add(self, micros: int) -> None:
        """Count one time, in microseconds."""
        self[bucket_of(micros)] += 1

    def percentiles(self, points: Sequence[float]) -> list[float | None]:
        """Return the times, in seconds, that these shares don't exceed; None for each if nothing was counted."""
        found: list[float | None] = []
        total, seen = self.total(), 0
        buckets = iter(sorted(self.items()))
        bucket = None
        for point in points:  # ascending
            while total and seen < point * total:
                bucket, count = next(buckets)
                seen += count
            found.append(None if bucket is None else seconds_of(bucket))
        return found

    def to_text(self) -> str:
        """Return the JSON stored in a row: buckets and counts, alternating."""
        return json.dumps([number for pair in sorted(self.items()) for number in pair], separators=(",", ":"))

    @classmethod
    def of_text(cls, text: str) -> Histogram:
        """Read it back."""
        numbers = json.loads(text)
        return cls(dict(zip(numbers[::2], numbers[1::2], strict=True)))
