"""``spark.streams.addListener(QueueListener(...))``: what the operators of the queue see of the queries on Spark.

Spark calls a listener from a thread of the driver. It only takes down what happened there; a thread of its own writes
it. So a database that is away costs no query anything, and what it missed is written when the database is back.
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.spark.source_options import Options
from django_dbqueue.streams import stream_progress_sql
from django_dbqueue.streams.stream_progress_sql import NAME, READER

WRITES_EVERY: Final = 5.0
"""Seconds between two writes, and after a failed one."""
LAST_WRITE_SECONDS: Final = 5.0
"""How long the end of the program waits for the last write."""
MOST_FAILURES: Final = 1_000
"""Failures that are kept for a database that is away."""
ERROR_LENGTH: Final = 500

logger = logging.getLogger("django_dbqueue.spark")


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """What a stream has done since the last write; ``rate`` and ``backlog`` are the last batch's."""

    query_id: str
    messages: int
    rate: float
    backlog: int
    capped: bool


class QueueListener(StreamingQueryListener):
    """Records rate, backlog, last progress and failures of a session's streams from this database.

    The options are those that name the credentials. InvalidPipeline if they name none.
    """

    def __init__(self, **options: str) -> None:
        Options.of(options, ())
        self._credentials = Credentials.load(options)
        self._lock = threading.Lock()
        self._progress: dict[str, QueryProgress] = {}
        self._failures: list[tuple[str, str]] = []
        self._wake, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="dbqueue listener", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Add what the batch has read from streams of the queue."""
        with self._lock:
            for name, seen in _streams_in(event.progress):
                before = self._progress.get(name)
                if before is not None:
                    seen = replace(seen, messages=before.messages + seen.messages)
                self._progress[name] = seen

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Record the failure, if it is one; the program may be about to end, so it is written at once."""
        if event.exception:
            error = self._credentials.hidden_in(gist_of(event.exception))
            with self._lock:
                self._failures = [*self._failures, (str(event.id), error)][-MOST_FAILURES:]
        self._wake.set()

    def close(self) -> None:
        """Write what is left, and end the thread; a database that is away is waited for no more than some seconds."""
        atexit.unregister(self.close)
        self._ended.set()
        self._wake.set()
        self._thread.join(LAST_WRITE_SECONDS)

    def _write_all(self) -> None:
        while not self._ended.is_set():
            self._wake.wait(WRITES_EVERY)
            self._wake.clear()
            self._write_pending()

    def _write_pending(self) -> None:
        with self._lock:
            progress, failures = self._progress, self._failures
            self._progress, self._failures = {}, []
        if not progress and not failures:
            return
        try:
            with Lasting(self._credentials, outage=0, stands=True) as session:
                session.ask(lambda connection: connection.outermost(lambda: _write(connection, progress, failures)))
        except Exception as error:
            logger.warning("The figures of streams could not be written, and will be later: %s", error)
            self._take_back(progress, failures)

    def _take_back(self, progress: dict[str, QueryProgress], failures: list[tuple[str, str]]) -> None:
        with self._lock:
            for name, old in progress.items():
                new = self._progress.get(name)
                self._progress[name] = old if new is None else replace(new, messages=old.messages + new.messages)
            self._failures = [*failures, *self._failures][-MOST_FAILURES:]


def _write(connection: Connection, progress: dict[str, QueryProgress], failures: list[tuple[str, str]]) -> None:
    with connection.transaction():
        for name, seen in sorted(progress.items()):
            connection.run(stream_progress_sql.create(connection.server, name))
            connection.run(
                stream_progress_sql.advance(connection.server,
                    name, seen.query_id, messages=seen.messages, rate=seen.rate,
                    backlog=seen.backlog, capped=seen.capped,
                )
            )  # fmt: skip
        for query_id, error in failures:
            connection.run(stream_progress_sql.fail(connection.server, query_id, error))


def _streams_in(progress: Any) -> list[tuple[str, QueryProgress]]:
    """Return what a progress event says about streams of a queue, and of the history; other sources are left out."""
    found = []
    for source in progress.sources:
        latest = _object_of(source.latestOffset)
        name = latest.get(NAME)
        if not isinstance(name, str):
            continue
        if name.startswith(READER):
            backlog = max(0, int(latest["id"]) - int(_object_of(source.endOffset).get("id", latest["id"])))
        else:
            backlog = int(latest["ready"]) + int(latest["waiting"])
        rows, rate = int(source.numInputRows), float(source.processedRowsPerSecond)
        capped = bool(latest.get("capped", False))
        found.append((name, QueryProgress(str(progress.id), rows, rate, backlog, capped)))
    return found


def _object_of(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:  # some sources' offsets are no JSON
        return {}
    return value if isinstance(value, dict) else {}


def gist_of(exception: str) -> str:
    """Return the line of an exception's text that says what it was: the last one before Java's stack begins."""
    lines = [line.strip() for line in exception.partition("\n\tat ")[0].splitlines()]
    return next((line for line in reversed(lines) if line), "")[:ERROR_LENGTH]
