"""The readers of the history, and how far they are. Needs neither Spark nor Java."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django_dbqueue.spark.admission import admitted
from django_dbqueue.spark.history_readers import Reader, readers
from django_dbqueue.spark.jobs.config import ReadersConfig
from django_dbqueue.spark.stream_figures import figures_by_name
from django_dbqueue.streams.stream_progress_sql import READER


@dataclass(frozen=True, slots=True)
class ReadersResult:
    """The readers, the slowest first."""

    readers: tuple[Reader, ...]
    figures: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"{each.name}  at the archive's id {each.position:,}, {each.behind:,} behind  "
            f"last seen {each.seen_at:%Y-%m-%d %H:%M:%S} (UTC)"
            + (f"  {seen}" if (seen := self.figures.get(READER + each.name)) else "")
            for each in self.readers
        ]
        return "\n".join(lines) or "Nobody reads the history of this database."


def run(_spark: None, config: ReadersConfig) -> ReadersResult:
    """Read the positions."""
    with admitted(config.load_credentials(), outage=config.outage) as connection:
        return ReadersResult(tuple(readers(connection)), figures_by_name(connection))
