"""What a ``QueueListener`` has recorded about streams and readers of the history, for people."""

from __future__ import annotations

from django_dbqueue.spark.connection import Connection, to_utc
from django_dbqueue.streams import stream_progress_sql


def figures_by_name(connection: Connection) -> dict[str, str]:
    """Return a few words about each stream or reader that a listener has seen, by the name of its row."""
    rows = connection.fetch(stream_progress_sql.all_rows(connection.server))
    return {name: _words(*figures) for name, *figures in rows}


def _words(messages: int, rate: float, failures: int, progressed: object, failed: object, error: str) -> str:
    when = f"{to_utc(progressed):%Y-%m-%d %H:%M:%S}"
    text = f"{messages:,} messages read, the last batch at {when} (UTC) with {rate:,.0f} messages/s"
    if failed is None:
        return text
    return f"{text}; failed {failures:,} times, last at {to_utc(failed):%Y-%m-%d %H:%M:%S}: {error}"
