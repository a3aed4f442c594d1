"""The consuming streams that have ever run, and what they hold. Needs neither Spark nor Java."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django_dbqueue.spark.admission import admitted
from django_dbqueue.spark.connection import to_utc
from django_dbqueue.spark.jobs.config import StreamsConfig
from django_dbqueue.spark.stream_figures import figures_by_name
from django_dbqueue.streams.backlog import Backlog
from django_dbqueue.streams.stream_list import StreamSummary, streams
from django_dbqueue.streams.stream_progress_sql import STREAM


@dataclass(frozen=True, slots=True)
class StreamsResult:
    """The streams, by name."""

    streams: tuple[StreamSummary, ...]
    figures: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            "\n".join(_line(each, self.figures) for each in self.streams)
            or "No stream has consumed a queue of this database."
        )


def run(_spark: None, config: StreamsConfig) -> StreamsResult:
    """Read the ledger, and count what is left in the queues."""
    with admitted(config.load_credentials(), outage=config.outage) as connection:
        return StreamsResult(tuple(streams(connection)), figures_by_name(connection))


def _line(each: StreamSummary, figures: Mapping[str, str]) -> str:
    runs = f"run by {each.runner}" if each.is_running else f"not running since {to_utc(each.beat_at):%Y-%m-%d %H:%M:%S}"
    overdue = f", {each.overdue:,} with an expired lease" if each.overdue else ""
    seen = figures.get(STREAM + each.name)
    return (
        f"{each.name}  queue {each.queue}  {runs}  holds {each.messages:,} messages in {each.claims:,} claims{overdue}"
        f"  {_left(each.backlog)}  on_expired={each.on_expired}" + (f"  {seen}" if seen else "")
    )


def _left(backlog: Backlog) -> str:
    if backlog.is_capped:
        return f"more than {backlog.ready + backlog.waiting:,} messages left"
    return f"{backlog.ready:,} ready and {backlog.waiting:,} waiting messages left"
