"""What was counted, as tables: beside each history, and by the model beside a billion rows."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.scale.counters import COUNTED
from benchmarks.scale.memory import HELD
from benchmarks.scale.model import Point, error, fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.scale.account import Account
    from benchmarks.scale.jobs import Job

BILLION: Final = 1_000_000_000
OFF: Final = 0.2
LEAST: Final = 1_000
"""A model that foretells a fifth less than what is counted, and so much less, has left out something that grows."""
FORETOLD: Final = ("statements", "rows read", "rows written", "pages")


def measured(jobs: Sequence[Job], accounts: Sequence[Account]) -> str:
    """Medians over the rounds; times as ratios to the smallest history's."""
    names = (*COUNTED, "file bytes", "sessions", *HELD, "time")
    lines = [f"{'job':<14}{'rows':>14}{'new':>9}" + "".join(f"{name:>14}" for name in names)]
    for job in jobs:
        own = [each for each in accounts if each.job == job.name]
        least = min((each.rows, each.new) for each in own)
        smallest = median(each.seconds for each in own if (each.rows, each.new) == least)
        for rows in sorted({each.rows for each in own}):
            usual = [each for each in own if (each.rows, each.new) == (rows, least[1])]
            found = [median(_quantities(each)[place] for each in usual) for place in range(len(names) - 1)]
            ratio = median(each.seconds for each in usual) / smallest
            cells = "".join(f"{number:>14,.0f}" for number in found)
            lines.append(f"{job.name:<14}{rows:>14,}{usual[0].new:>9,}{cells}{ratio:>14.2f}")
    return "\n".join(lines)


def foretold(jobs: Sequence[Job], accounts: Sequence[Account], files: dict[int, int], at: int = BILLION) -> str:
    """Fit each job's model to all histories but the largest, and compare it with that one; then go on to ``at``."""
    lines = [f"{'job':<14}{'counted':<14}{'measured':>14}{'foretold':>14}{'off':>8}{f'at {at:,}':>18}  model"]
    for job in jobs:
        own = [each for each in accounts if each.job == job.name]
        largest = max(each.rows for each in own)
        for name in FORETOLD:
            points = [Point(each.rows, each.new, each.counted[name], files.get(each.rows, 0)) for each in own]
            seen, last = [p for p in points if p.rows < largest], [p for p in points if p.rows == largest]
            model, whole = fitted(seen, job.terms), fitted(points, job.terms)
            new, count = last[0].new, median(each.cost for each in last)
            expected = model.at(largest, new, last[0].files)
            off = error(model, last)
            beyond = whole.at(at, new, round(last[0].files * at / largest))
            mark = "  <- grows otherwise" if off < -OFF and count - expected > LEAST else ""
            terms = " + ".join(f"{factor:,.4g} {term}" for term, factor in whole.coefficients.items() if factor) or "0"
            lines.append(
                f"{job.name:<14}{name:<14}{count:>14,.0f}{expected:>14,.0f}{off:>8.1%}{beyond:>18,.0f}  {terms}{mark}"
            )
    return "\n".join(lines)


def _quantities(one: Account) -> list[float]:
    return [*(one.counted[name] for name in COUNTED), one.file_bytes, one.sessions, *(one.held[name] for name in HELD)]
