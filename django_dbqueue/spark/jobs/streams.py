"""The consuming streams that have ever run, and what they hold. Needs neither Spark nor Java."""

from __future__ import annotations

from dataclasses import dataclass

from django_dbqueue.spark.connection import Connection, to_utc
from django_dbqueue.spark.jobs.config import StreamsConfig
from django_dbqueue.streams.stream_list import Standing, streams


@dataclass(frozen=True, slots=True)
class StreamsResult:
    """The streams, by name."""

    streams: tuple[Standing, ...]

    def __str__(self) -> str:
        return "\n".join(_line(each) for each in self.streams) or "No stream has consumed a queue of this database."


def run(_spark: None, config: StreamsConfig) -> StreamsResult:
    """Read the ledger."""
    with Connection(config.load_credentials()) as connection:
        return StreamsResult(tuple(streams(connection)))


def _line(each: Standing) -> str:
    runs = f"run by {each.runner}" if each.is_running else f"not running since {to_utc(each.beat_at):%Y-%m-%d %H:%M:%S}"
    overdue = f", {each.overdue:,} with an expired lease" if each.overdue else ""
    return (
        f"{each.name}  queue {each.queue}  {runs}  holds {each.messages:,} messages in {each.claims:,} claims{overdue}"
        f"  on_expired={each.on_expired}"
    )
