"""Contestants in interleaved rounds: whatever slows the machine for a while slows them all."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def nothing() -> None:
    """What a contestant prepares or checks that has nothing to prepare or check."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """Only `run` is timed. `check` raises when `run` has not done the work that `rows` claims."""

    name: str
    rows: int
    run: Callable[[], None]
    prepare: Callable[[], None] = nothing
    check: Callable[[], None] = nothing


@dataclass(frozen=True, slots=True)
class Target:
    """The contestant makes at least so many times the rows per second of the other one."""

    contestant: str
    rival: str
    at_least: float
    or_per_second: float | None = None
    """Reached by this many rows per second too, whatever the rival does."""


@dataclass(frozen=True, slots=True)
class Contest:
    name: str
    contestants: Sequence[Contestant]
    targets: Sequence[Target]


@dataclass(slots=True)
class Rates:
    """Rows per second of one contestant, a number for each round."""

    contestant: str
    rows: int
    rounds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


@dataclass(frozen=True, slots=True)
class Verdict:
    target: Target
    ratio: float
    per_second: float

    @property
    def met(self) -> bool:
        if self.target.or_per_second is not None and self.per_second >= self.target.or_per_second:
            return True
        return self.ratio >= self.target.at_least


@dataclass(frozen=True, slots=True)
class Outcome:
    contest: str
    rates: dict[str, Rates]
    verdicts: list[Verdict]


def race(contest: Contest, *, rounds: int, tell: Callable[[str], None]) -> Outcome:
    """One round that doesn't count, to warm up; then each round begins with another contestant."""
    rates = {each.name: Rates(each.name, each.rows) for each in contest.contestants}
    for number in range(rounds + 1):
        first = number % len(contest.contestants)
        for each in [*contest.contestants[first:], *contest.contestants[:first]]:
            seconds = _timed(each)
            tell(f"{contest.name}, {f'round {number}' if number else 'warm-up'}: {each.name} {seconds:.1f} s")
            if number:
                rates[each.name].rounds.append(each.rows / seconds)
    return Outcome(contest.name, rates, [_verdict(target, rates) for target in contest.targets])


def _timed(contestant: Contestant) -> float:
    contestant.prepare()
    began = time.perf_counter()
    contestant.run()
    seconds = time.perf_counter() - began
    contestant.check()
    return seconds


def _verdict(target: Target, rates: dict[str, Rates]) -> Verdict:
    own = rates[target.contestant].median
    return Verdict(target, own / rates[target.rival].median, own)
