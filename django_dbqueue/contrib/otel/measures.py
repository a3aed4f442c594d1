"""The metrics of the messaging conventions. Times are in seconds.

Counters are observed when they are collected: counting costs a message a tenth of a microsecond, and the SDK's counters
ten.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from django_dbqueue import __version__
from django_dbqueue.contrib.otel.conventions import DURATIONS, ERROR_TYPE, SCHEMA_URL, Attributes, Operation


class Tally:
    """How many messages there were, by operation on a queue of a database, and by what it failed with."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[frozenset[tuple[str, str | int]], str | None]] = Counter()
        self._lock = threading.Lock()

    def add(self, number: int, operation: Operation, error: str | None) -> None:
        """Count some."""
        with self._lock:
            self._counts[operation.series, error] += number

    def observe(self, _: CallbackOptions) -> Iterable[Observation]:
        """Return all counts."""
        with self._lock:
            found = list(self._counts.items())
        return [Observation(count, _with(dict(series), error)) for (series, error), count in found]


class Measures:
    """The four instruments, of whatever provider of metrics is set."""

    def __init__(self) -> None:
        meter = metrics.get_meter("django_dbqueue", __version__, schema_url=SCHEMA_URL)
        self._sent, self._consumed = Tally(), Tally()
        meter.create_observable_counter(
            "messaging.client.sent.messages",
            [self._sent.observe],
            "{message}",
            "Number of messages that were given to enqueue.",
        )
        meter.create_observable_counter(
            "messaging.client.consumed.messages",
            [self._consumed.observe],
            "{message}",
            "Number of messages that were given to the application.",
        )
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of enqueueing, claiming and settling.",
            explicit_bucket_boundaries_advisory=DURATIONS,
        )
        self._process = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of a handler's run.",
            explicit_bucket_boundaries_advisory=DURATIONS,
        )

    def sent(self, number: int, seconds: float, operation: Operation, error: str | None = None) -> None:
        """Take note of an enqueue."""
        self._sent.add(number, operation, error)
        self._operation.record(seconds, _with(operation.attributes, error))

    def received(self, number: int, seconds: float, operation: Operation) -> None:
        """Take note of a claim for the application."""
        self._consumed.add(number, operation, None)
        self._operation.record(seconds, operation.attributes)

    def settled(self, seconds: float, operation: Operation, error: str | None = None) -> None:
        """Take note of a settlement."""
        self._operation.record(seconds, _with(operation.attributes, error))

    def processed(self, number: int, seconds: float, operation: Operation, error: str | None = None) -> None:
        """Take note of a handler's run."""
        self._consumed.add(number, operation, error)
        self._process.record(seconds, _with(operation.attributes, error))


def _with(attributes: Attributes, error: str | None) -> Attributes:
    return attributes if error is None else {**attributes, ERROR_TYPE: error}
