"""The text format OpenMetrics 1.0: families of samples. https://prometheus.io/docs/specs/om/open_metrics_spec/"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = Mapping[str, str]


@dataclass(slots=True)
class Family:
    """A metric: its name, its samples by labels, and what it means. A counter's samples end in ``_total``."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    unit: str = ""
    samples: list[tuple[str, str, int | float]] = field(default_factory=list)
    """Suffix, labels as they are written, value."""

    def add(self, value: float, labels: Labels | None = None) -> None:
        """Add a sample of a counter or a gauge."""
        self.samples.append(("_total" if self.kind == "counter" else "", written(labels or {}), value))

    def add_histogram(self, buckets: Iterable[tuple[str, int]], total: float, labels: Labels) -> None:
        """Add a histogram: cumulative counts by upper bound, the last one ``+Inf``; and the sum of its values."""
        inner, count = _inner(labels), 0
        for bound, count in buckets:
            self.samples.append(("_bucket", f'{{{inner},le="{bound}"}}', count))
        self.samples.append(("_count", f"{{{inner}}}", count))
        self.samples.append(("_sum", f"{{{inner}}}", total))


def written(labels: Labels) -> str:
    """Return labels as they are written behind a name; '' for none."""
    return f"{{{_inner(labels)}}}" if labels else ""


def _inner(labels: Labels) -> str:
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in labels.items()])


@lru_cache(maxsize=4_096)
def _escaped(value: str) -> str:
    return value.translate(_ESCAPES)


def exposition(families: Iterable[Family]) -> str:
    """Return the page."""
    return "\n".join(_lines(families)) + "\n"


def _lines(families: Iterable[Family]) -> Iterator[str]:
    for family in families:
        yield f"# TYPE {family.name} {family.kind}"
        if family.unit:
            yield f"# UNIT {family.name} {family.unit}"
        yield f"# HELP {family.name} {_escaped(family.help)}"
        for suffix, labels, value in family.samples:
            yield f"{family.name}{suffix}{labels} {value}"
    yield "# EOF"
