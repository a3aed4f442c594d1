"""Ranges of ids with about equally many rows each, found by a few probes of the primary key, however the ids lie.

Ids have gaps of any size, and live messages are often at both ends of a history that is gone. Splitting the numbers
between the lowest and the highest id into equal parts would give one task nearly everything. So ranges are halved where
most rows may still be, and shrunk each time to the ids that exist: an empty half is gone after one probe. The number of
rows in a range is estimated from how close together its first and last hundred ids are. Finally the ranges are dealt
out, the largest first, each to the task that has least.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from django_dbqueue.statements.scan_sql import Span

SAMPLED: Final = 100
PIECES: Final = 4
"""Minimum ranges per task: the more there are, the less a wrong estimate matters."""
PROBES: Final = 200
"""Maximum times a range is halved, besides the pieces: what a table with gaps everywhere costs to plan."""

Sample = Callable[[Span, int, bool], tuple[int | None, int | None, int]]
"""Reads the lowest id, the highest and the count of the first (or backwards: the last) rows of a span."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Ids that exist at both ends, and their approximate number of rows; ``most`` is the maximum."""

    span: Span
    rows: int
    most: int


def measured(span: Span, sample: Sample) -> Piece | None:
    """Shrink a span to the ids that exist, and estimate its rows; None if there are none."""
    low, high, rows = sample(span, SAMPLED, False)
    if low is None or high is None:
        return None
    if rows < SAMPLED:
        return Piece(Span(low, high), rows, rows)
    last_low, last, _ = sample(span, SAMPLED, True)
    if last_low is None or last is None or last <= high:  # rows disappeared between the two probes
        return Piece(Span(low, high), rows, rows)
    width = last - low + 1
    densities = [SAMPLED / (high - low + 1), SAMPLED / (last - last_low + 1)]
    return Piece(Span(low, last), max(SAMPLED, int(width * sum(densities) / 2)), int(width * max(densities)))


def dealt(whole: Span, sample: Sample, *, parts: int, least: int, pieces: int = PIECES) -> list[list[Piece]]:
    """Return at most ``parts`` parts, each a list of pieces by id, with ``least`` rows or more if possible.

    The parts together hold every row of the span that existed at the time.
    """
    first = measured(whole, sample)
    if first is None:
        return []
    number = count()
    found = [(-first.most, next(number), first)]
    for _ in range(PROBES + pieces * parts):
        share = sum(-most for most, _, _ in found) // (parts * pieces)
        if -found[0][0] <= max(1, share, least // pieces):
            break
        _, _, largest = heapq.heappop(found)
        middle = (largest.span.first + largest.span.last) // 2
        for half in (Span(largest.span.first, middle), Span(middle + 1, largest.span.last)):
            if (piece := measured(half, sample)) is not None:
                heapq.heappush(found, (-piece.most, next(number), piece))
        if not found:  # every row disappeared meanwhile
            return []
    every = [piece for _, _, piece in found]
    wanted = max(1, min(parts, sum(piece.rows for piece in every) // max(1, least), len(every)))
    return _levelled(every, wanted)


def _levelled(pieces: Sequence[Piece], parts: int) -> list[list[Piece]]:
    loads = [(0, part) for part in range(parts)]
    dealt_out: list[list[Piece]] = [[] for _ in range(parts)]
    for piece in sorted(pieces, key=lambda piece: -piece.rows):
        load, part = heapq.heappop(loads)
        dealt_out[part].append(piece)
        heapq.heappush(loads, (load + piece.rows, part))
    return [sorted(part, key=lambda piece: piece.span) for part in dealt_out if part]
