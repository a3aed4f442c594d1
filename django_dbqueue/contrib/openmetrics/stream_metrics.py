"""What a ``QueueListener`` has recorded about the streams of a Spark session, as metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django_dbqueue.contrib.openmetrics.exposition import Family
from django_dbqueue.models import StreamProgress


def of_streams(streams: Iterable[StreamProgress]) -> Iterator[Family]:
    """Return the metrics of consuming streams, and of readers of the history: labels ``kind`` and ``stream``."""
    messages = Family("dbqueue_stream_messages", "counter", "Messages in batches that a query on Spark has finished.")
    failures = Family("dbqueue_stream_failures", "counter", "Ends of the query by an error.")
    failing = Family("dbqueue_stream_failing", "gauge", "Whether the query has failed since its last batch.")
    backlog = Family(
        "dbqueue_stream_backlog",
        "gauge",
        "Messages that the last batch left; at least, if dbqueue_stream_backlog_capped is 1.",
    )
    capped = Family("dbqueue_stream_backlog_capped", "gauge", "Whether dbqueue_stream_backlog stopped counting.")
    last = Family("dbqueue_stream_progress_timestamp_seconds", "gauge", "When the last batch was recorded.", "seconds")
    for each in streams:
        kind, _, name = each.name.partition(":")
        labels = {"kind": kind, "stream": name}
        messages.add(each.messages, labels)
        failures.add(each.failures, labels)
        failing.add(int(each.is_failing), labels)
        backlog.add(each.backlog, labels)
        capped.add(int(each.backlog_capped), labels)
        last.add(each.progressed_at.timestamp(), labels)
    yield from (messages, failures, failing, backlog, capped, last)
