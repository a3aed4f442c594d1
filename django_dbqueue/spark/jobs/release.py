"""Releasing a stream's claims to the queue, by hand. Needs neither Spark nor Java."""

from __future__ import annotations

from dataclasses import dataclass

from django_dbqueue.spark.admission import admitted
from django_dbqueue.spark.jobs.config import ReleaseConfig
from django_dbqueue.streams.stream_release import release_stream


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """How many messages were released, uncharged."""

    stream: str
    messages: int

    def __str__(self) -> str:
        return f"The stream {self.stream!r} holds no messages now: {self.messages:,} messages were released, uncharged."


def run(_spark: None, config: ReleaseConfig) -> ReleaseResult:
    """Release what the stream holds; StreamBusy while a query runs it, unless ``force`` is set."""
    with admitted(config.load_credentials(), outage=config.outage) as connection:
        return ReleaseResult(config.stream, release_stream(connection, config.stream, force=config.force))
