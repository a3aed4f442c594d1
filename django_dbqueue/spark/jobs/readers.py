"""The readers of the history, and how far they are. Needs neither Spark nor Java."""

from __future__ import annotations

from dataclasses import dataclass

from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.history_readers import Reader, readers
from django_dbqueue.spark.jobs.config import ReadersConfig


@dataclass(frozen=True, slots=True)
class ReadersResult:
    """The readers, the slowest first."""

    readers: tuple[Reader, ...]

    def __str__(self) -> str:
        lines = [
            f"{each.name}  at the archive's id {each.position:,}, {each.behind:,} behind  "
            f"last seen {each.seen_at:%Y-%m-%d %H:%M:%S} (UTC)"
            for each in self.readers
        ]
        return "\n".join(lines) or "Nobody reads the history of this database."


def run(_spark: None, config: ReadersConfig) -> ReadersResult:
    """Read the positions."""
    with Connection(config.load_credentials()) as connection:
        return ReadersResult(tuple(readers(connection)))
