"""What a job costs, as a sum: a part that is always there, one for each new row, and one that grows with the history.

A job says how it is to grow, and never how much: the coefficients are fitted to what was measured, and checked by what
they foretell of the largest history, which they have not seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TERMS: Final[dict[str, Callable[[Point], float]]] = {
    "each": lambda _: 1.0,
    "new": lambda point: point.new,
    "files": lambda point: point.files,
    "depth": lambda point: math.log2(point.rows),
    "rows": lambda point: point.rows,
}
"""A job's own cost; that of a row that it works on; of a file that the lake has; of a level of the indexes (log2 of the
rows); of a row that the history has."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run: how large the history (or the lake) was, how much was new, and what was counted."""

    rows: int
    new: int
    cost: float
    files: int = 0


@dataclass(frozen=True, slots=True)
class Model:
    """A coefficient for each term."""

    coefficients: dict[str, float]

    def at(self, rows: int, new: int, files: int = 0) -> float:
        """Return the cost of a run on ``new`` rows, beside a history of ``rows``."""
        point = Point(rows, new, 0.0, files)
        return sum(factor * TERMS[term](point) for term, factor in self.coefficients.items())


def fitted(points: Sequence[Point], terms: Sequence[str]) -> Model:
    """Return the model with the smallest squares of relative errors; ValueError if the points are too few.

    No part of a cost is negative: a term that would be is left out, and the others are fitted again.
    """
    different = {(point.rows, point.new, point.files) for point in points}
    if len(different) < len(terms):
        raise ValueError(f"{len(terms)} coefficients can't be fitted to {len(different)} different runs")
    kept = list(terms)
    while True:
        solved = dict(zip(kept, _solved(points, kept), strict=True))
        lowest = min(solved, key=lambda term: solved[term] * max(TERMS[term](point) for point in points))
        if solved[lowest] >= 0:
            return Model({term: solved.get(term, 0.0) for term in terms})
        kept.remove(lowest)
        if not kept:
            return Model(dict.fromkeys(terms, 0.0))


def _solved(points: Sequence[Point], terms: Sequence[str]) -> list[float]:
    # A small history counts as much as a large one: each equation is divided by its cost
    weights = numpy.array([1.0 / max(abs(point.cost), 1.0) for point in points])
    table = numpy.array([[TERMS[term](point) for term in terms] for point in points]) * weights[:, None]
    scale = numpy.abs(table).max(axis=0)
    scale[scale == 0] = 1.0
    solved, *_ = numpy.linalg.lstsq(table / scale, numpy.array([point.cost for point in points]) * weights, rcond=None)
    return [float(each) for each in solved / scale]


def error(model: Model, points: Sequence[Point]) -> float:
    """Return by which part of what was measured the model is off, over all points."""
    measured = sum(point.cost for point in points)
    foretold = sum(model.at(point.rows, point.new, point.files) for point in points)
    return (foretold - measured) / measured if measured else foretold
