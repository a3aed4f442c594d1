"""Tables for people, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.race import Outcome, Verdict


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [f"{'':<14}{'':<30}{'rows':>10}{'rows/s':>12}{'slowest':>12}{'fastest':>12}"]
    for outcome in outcomes:
        for rates in outcome.rates.values():
            numbers = f"{rates.median:>12,.0f}{min(rates.rounds):>12,.0f}{max(rates.rounds):>12,.0f}"
            lines.append(f"{outcome.contest:<14}{rates.contestant:<30}{rates.rows:>10,}{numbers}")
    return "\n".join(lines)


def verdicts(outcomes: Sequence[Outcome]) -> str:
    return "\n".join(f"{outcome.contest:<14}{_sentence(each)}" for outcome in outcomes for each in outcome.verdicts)


def _sentence(verdict: Verdict) -> str:
    target = verdict.target
    wanted = f"at least {target.at_least}"
    if target.or_per_second is not None:
        wanted += f", or {target.or_per_second:,.0f} rows/s"
        wanted += f" ({verdict.per_second:,.0f} here)"
    word = "met" if verdict.met else "NOT MET"
    return f"{word:<9}{target.contestant} is {verdict.ratio:.2f} x {target.rival}; wanted: {wanted}"


def write_json(path: Path, about: dict[str, Any], databases: dict[str, tuple[str, Sequence[Outcome]]]) -> None:
    """One object: what was run, and for each database each round's rows per second and each verdict."""
    found = {
        name: {"version": version, "contests": [_as_json(outcome) for outcome in outcomes]}
        for name, (version, outcomes) in databases.items()
    }
    path.write_text(json.dumps({**about, "databases": found}, indent=2) + "\n")


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "contest": outcome.contest,
        "rates": [{**asdict(rates), "median": rates.median} for rates in outcome.rates.values()],
        "verdicts": [{**asdict(each), "met": each.met} for each in outcome.verdicts],
    }
