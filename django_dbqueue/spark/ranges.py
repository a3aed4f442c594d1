"""Ranges of ids with about as many rows each, found by a few probes of the primary key, however the ids lie.

Ids have gaps of any size, and live messages often stand at both ends of a history that is gone. Cutting the numbers
between the lowest and the highest id into equal parts would give one task nearly everything. So ranges are halved
where most rows may still be, and shrunk each time to the ids that are there: an empty half is gone after one probe.
How many rows a range has is estimated from how closely the first and the last hundred ids stand. At last the ranges
are dealt out, the largest first, each to the task that has least.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from django_dbqueue.databases.scanning import Span

SAMPLED: Final = 100
PIECES: Final = 4
"""How many ranges there are for each task, at least: the more, the less it matters where an estimate was wrong."""
PROBES: Final = 200
"""How often a range is halved, at most, besides the pieces: what a table with gaps everywhere costs to plan."""

Sample = Callable[[Span, int, bool], tuple[int | None, int | None, int]]
"""Reads the lowest id, the highest and the count of the first (or backwards: the last) rows of a span."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Ids that are there at both ends, and about how many rows they have; ``most`` is what they may have."""

    span: Span
    rows: int
    most: int


def measured(span: Span, sample: Sample) -> Piece | None:
    """Shrink a span to the ids that are there, and estimate its rows; None where there are none."""
    low, high, rows = sample(span, SAMPLED, False)
    if low is None or high is None:
        return None
    if rows < SAMPLED:
        return Piece(Span(low, high), rows, rows)
    last_low, last, _ = sample(span, SAMPLED, True)
    if last_low is None or last is None or last <= high:  # rows went away between the two probes
        return Piece(Span(low, high), rows, rows)
    width = last - low + 1
    densities = [SAMPLED / (high - low + 1), SAMPLED / (last - last_low + 1)]
    return Piece(Span(low, last), max(SAMPLED, int(width * sum(densities) / 2)), int(width * max(densities)))


def dealt(whole: Span, sample: Sample, *, parts: int, least: int, pieces: int = PIECES) -> list[list[Piece]]:
    """Return at most that many parts, each a list of pieces by id; a part has ``least`` rows or more, if it can.

    The parts together hold every row of the span that was there at the time.
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
        if not found:  # every row went away meanwhile
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
