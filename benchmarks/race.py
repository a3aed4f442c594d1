"""Contestants in interleaved rounds: whatever slows the machine for a while slows them all."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROWS_PER_SECOND: Final = "rows/s"


def nothing() -> None:
    """What a contestant prepares or checks that has nothing to prepare or check."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """Either timed (its figure is `rows` by the seconds of `run`), or it has a `measure` of its own.

    `check` raises when the work that the figure claims has not been done.
    """

    name: str
    rows: int = 0
    run: Callable[[], None] = nothing
    prepare: Callable[[], None] = nothing
    check: Callable[[], None] = nothing
    measure: Callable[[], float] | None = None
    """Returns the figure of this round, in the contest's unit; then nothing is timed, and `run` is not called."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a contestant's median is to be: so many times a rival's, or, without a rival, so much in its unit."""

    contestant: str
    rival: str | tuple[str, ...] | None = None
    """Of several, the one whose median is the highest."""
    at_least: float | None = None
    at_most: float | None = None
    or_at_least: float | None = None
    """Reached by this much in the contest's unit too, whatever the rival does."""


@dataclass(frozen=True, slots=True)
class Contest:
    name: str
    contestants: Sequence[Contestant]
    targets: Sequence[Target] = ()
    unit: str = ROWS_PER_SECOND
    rounds: int | None = None
    """At most so many, where one takes long."""
    warm_up: bool = True
    """Whether a round that doesn't count comes first."""


@dataclass(slots=True)
class Figures:
    """What one contestant reached, a number in the contest's unit for each round."""

    contestant: str
    rows: int = 0
    rounds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


@dataclass(frozen=True, slots=True)
class Verdict:
    target: Target
    figure: float
    """The contestant's median."""
    rival_figure: float | None = None
    rival: str | None = None

    @property
    def judged(self) -> float:
        """What the target's bounds are for: the ratio to the rival, else the figure itself."""
        return self.figure if self.rival_figure is None else self.figure / self.rival_figure

    @property
    def met(self) -> bool:
        target = self.target
        if target.or_at_least is not None and self.figure >= target.or_at_least:
            return True
        enough = target.at_least is None or self.judged >= target.at_least
        return enough and (target.at_most is None or self.judged <= target.at_most)


@dataclass(frozen=True, slots=True)
class Outcome:
    contest: str
    unit: str
    figures: dict[str, Figures]
    verdicts: list[Verdict]


def race(contest: Contest, *, rounds: int, announce: Callable[[str], None]) -> Outcome:
    """Each round begins with another contestant; unless the contest does without, a warm-up comes first."""
    figures = {each.name: Figures(each.name, each.rows) for each in contest.contestants}
    last = rounds if contest.rounds is None else min(rounds, contest.rounds)
    for number in range(0 if contest.warm_up else 1, last + 1):
        first = number % len(contest.contestants)
        for each in [*contest.contestants[first:], *contest.contestants[:first]]:
            figure = _figure(each)
            title = f"round {number}" if number else "warm-up"
            announce(f"{contest.name}, {title}: {each.name} {rounded(figure)} {contest.unit}")
            if number:
                figures[each.name].rounds.append(figure)
    return Outcome(contest.name, contest.unit, figures, [_verdict(target, figures) for target in contest.targets])


def rounded(figure: float) -> str:
    """The number with about three digits that mean something."""
    if abs(figure) >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if abs(figure) >= 10 else f"{figure:.3g}"


def _figure(contestant: Contestant) -> float:
    contestant.prepare()
    figure = _rows_per_second(contestant) if contestant.measure is None else contestant.measure()
    contestant.check()
    return figure


def _rows_per_second(contestant: Contestant) -> float:
    began = time.perf_counter()
    contestant.run()
    return contestant.rows / (time.perf_counter() - began)


def _verdict(target: Target, figures: dict[str, Figures]) -> Verdict:
    own = figures[target.contestant].median
    if target.rival is None:
        return Verdict(target, own)
    rivals = (target.rival,) if isinstance(target.rival, str) else target.rival
    best = max((figures[name] for name in rivals), key=lambda each: each.median)
    return Verdict(target, own, best.median, best.contestant)
