"""A contest as plain SVG: bars for the medians, a line from the lowest to the highest round, and the numbers beside.

It is read without colours too, and follows the reader's light or dark theme.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from benchmarks.race import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WIDTH: Final = 820
_LABELS: Final = 250
_BAR: Final = 330
_ROW: Final = 24
_HEAD: Final = 34
_STYLE: Final = """
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .database { font-weight: 600 }
    .number { font-variant-numeric: tabular-nums }
    .bar { fill: #0969da }
    .spread { stroke: #1f2328; stroke-width: 1.5 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .bar { fill: #4493f8 }
      .spread { stroke: #e6edf3 }
    }"""


def chart(title: str, unit: str, databases: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    """SVG of each database's figures, in the form of the JSON; every database has a scale of its own."""
    parts: list[str] = []
    y = 0
    for database, figures in databases.items():
        parts.append(f'<text class="database" x="0" y="{y + 22}">{escape(database)}, {escape(unit)}</text>')
        y += _HEAD
        most = max(max(each["rounds"]) for each in figures) or 1
        for each in figures:
            parts.append(_bar(y, each, _BAR / most))
            y += _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 8}" width="{_WIDTH}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}\n</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _bar(y: int, figures: dict[str, Any], scale: float) -> str:
    median, lowest, highest = (
        round(number * scale, 1) for number in (figures["median"], min(figures["rounds"]), max(figures["rounds"]))
    )
    middle = y + _ROW // 2
    return "\n".join(
        (
            f'<text x="{_LABELS - 8}" y="{middle + 4}" text-anchor="end">{escape(figures["contestant"])}</text>',
            f'<rect class="bar" x="{_LABELS}" y="{y + 4}" width="{max(median, 1)}" height="{_ROW - 8}"/>',
            f'<path class="spread" d="M{_LABELS + lowest} {middle}H{_LABELS + highest}"/>',
            f'<text class="number" x="{_LABELS + _BAR + 12}" y="{middle + 4}">{numbers(figures)}</text>',
        )
    )


def numbers(figures: dict[str, Any]) -> str:
    """The median, and between which rounds it lies."""
    return f"{rounded(figures['median'])} ({rounded(min(figures['rounds']))} to {rounded(max(figures['rounds']))})"
