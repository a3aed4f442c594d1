"""Forgetting a reader of the history, or a stream, that will not come back. Needs neither Spark nor Java."""

from __future__ import annotations

from dataclasses import dataclass

from django_dbqueue.exceptions import InvalidPipeline
from django_dbqueue.spark.admission import admitted
from django_dbqueue.spark.history_readers import forget, readers
from django_dbqueue.spark.jobs.config import ForgetConfig
from django_dbqueue.streams.stream_release import forget_stream


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """What was forgotten."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} is forgotten. Its checkpoint can't be used any more."


def run(_spark: None, config: ForgetConfig) -> ForgetResult:
    """Forget it; InvalidPipeline if nothing has this name."""
    with admitted(config.load_credentials(), outage=config.outage) as connection:
        if config.stream is not None:
            forget_stream(connection, config.stream)
            return ForgetResult(f"The stream {config.stream!r}")
        assert config.reader is not None
        if not forget(connection, config.reader):
            known = ", ".join(each.name for each in readers(connection)) or "none"
            raise InvalidPipeline(f"There is no reader {config.reader!r} of the history. There are: {known}.")
        return ForgetResult(f"The reader {config.reader!r}")
