"""Tables for people, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from benchmarks.race import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.race import Outcome, Verdict


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [f"{'':<20}{'':<34}{'rows':>10}{'median':>12}{'lowest':>12}{'highest':>12}"]
    for outcome in outcomes:
        for figures in outcome.figures.values():
            rows = f"{figures.rows:,}" if figures.rows else ""
            numbers = (figures.median, min(figures.rounds), max(figures.rounds))
            columns = "".join(f"{rounded(number):>12}" for number in numbers)
            lines.append(f"{outcome.contest:<20}{figures.contestant:<34}{rows:>10}{columns}  {outcome.unit}")
    return "\n".join(lines)


def verdicts(outcomes: Sequence[Outcome]) -> str:
    return "\n".join(
        f"{outcome.contest:<20}{_sentence(each, outcome.unit)}" for outcome in outcomes for each in outcome.verdicts
    )


def _sentence(verdict: Verdict, unit: str) -> str:
    target = verdict.target
    unit_or_rival = unit if target.rival is None else f"x {verdict.rival}"
    bounds = {"at least": target.at_least, "at most": target.at_most}
    wanted = " and ".join(f"{name} {bound:,g}" for name, bound in bounds.items() if bound is not None)
    if target.or_at_least is not None:
        wanted += f", or {target.or_at_least:,.0f} {unit} ({verdict.figure:,.0f} here)"
    word = "met" if verdict.met else "NOT MET"
    return f"{word:<9}{target.contestant}: {_judged(verdict)} {unit_or_rival}; wanted: {wanted}"


def _judged(verdict: Verdict) -> str:
    return rounded(verdict.figure) if verdict.target.rival is None else f"{verdict.judged:.2f}"


def as_json(
    about: dict[str, Any],
    databases: Mapping[str, tuple[str, Sequence[Outcome]]],
    more: Mapping[str, dict[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """One object: what was run, and for each database each round's figure, each verdict, and what else is known."""
    found = {
        name: {"version": version, "contests": [_as_json(outcome) for outcome in outcomes], **more.get(name, {})}
        for name, (version, outcomes) in databases.items()
    }
    return {**about, "databases": found}


def write_json(
    path: Path,
    about: dict[str, Any],
    databases: Mapping[str, tuple[str, Sequence[Outcome]]],
    more: Mapping[str, dict[str, Any]] = MappingProxyType({}),
) -> None:
    path.write_text(json.dumps(as_json(about, databases, more), indent=2) + "\n")


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "contest": outcome.contest,
        "unit": outcome.unit,
        "figures": [{**asdict(figures), "median": figures.median} for figures in outcome.figures.values()],
        "verdicts": [{**asdict(each), "judged": each.judged, "met": each.met} for each in outcome.verdicts],
    }
