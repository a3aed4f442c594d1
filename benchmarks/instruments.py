"""What tracing costs a message, in processor time: ``python -m benchmarks.instruments``.

The modes take turns, each in a process of its own, because a process has one provider. The SDK's own price for a bare
span is shown beside them.
"""

from __future__ import annotations

import json
import logging
import statistics
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MODES: Final = ("off", "api", "unsampled", "recorded", "metrics")
ROUNDS: Final = 9
MESSAGES: Final = 4_000
ACKED_AT_ONCE: Final = 200
HEADERS: Final = '{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'


def main() -> None:
    """Run all modes in turn, and print the median of each."""
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for _ in range(ROUNDS):
        for mode in MODES:
            command = [sys.executable, "-m", "benchmarks.instruments", mode]
            found[mode].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    names = list(found["off"][0])
    print(f"{'µs a message':14}", *(f"{name:>12}" for name in names))
    for mode, rounds in found.items():
        medians = (statistics.median(each[name] for each in rounds) for name in names)
        print(f"{mode:14}", *(f"{median:12.2f}" for median in medians))


def measure(mode: str) -> dict[str, float]:
    """Return the processor time of each operation in one mode, in µs a message; the best of three."""
    _set_up(mode)
    from django_dbqueue import hooks
    from django_dbqueue.consumers.registry import Consumer
    from django_dbqueue.worker.execution import ACK

    consumer = Consumer("q", print)
    deliveries = [_delivery(number, consumer) for number in range(MESSAGES)]

    def run() -> None:
        for delivery in deliveries:
            hooks.end(hooks.begin([delivery]), [(delivery, ACK)])

    def ack() -> None:
        for first in range(0, MESSAGES, ACKED_AT_ONCE):
            hooks.acked(deliveries[first : first + ACKED_AT_ONCE], "default", 0.001)

    enqueue, enqueue_many = _sending()
    return {
        "enqueue": _best(enqueue),
        "enqueue_many": _best(enqueue_many),
        "run": _best(run),
        "ack": _best(ack),
        "bare span": _best(_bare_spans()),
    }


def _sending() -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what sends all messages one by one, and what sends them at once."""
    from django_dbqueue import hooks
    from django_dbqueue.envelope import Envelope

    sent = SimpleNamespace(pk=1, outcome="created")
    envelope = Envelope({"n": 1})
    many = [envelope] * MESSAGES

    def store(_: Any) -> Any:
        return sent

    def store_all(items: Any) -> Any:
        return SimpleNamespace(total=len(items))

    def enqueue() -> None:
        for _ in range(MESSAGES):
            if hooks.active is None:
                store(envelope)
            else:
                hooks.active.send(envelope, "q", "default", store)

    def enqueue_many() -> None:
        if hooks.active is None:
            store_all(many)
        else:
            hooks.active.send_many(many, "q", "default", store_all)

    return enqueue, enqueue_many


def _best(work: Callable[[], None]) -> float:
    times = []
    for _ in range(3):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times) / MESSAGES * 1e6


def _bare_spans() -> Callable[[], None]:
    from opentelemetry import trace

    tracer = trace.get_tracer("bare")

    def make() -> None:
        for _ in range(MESSAGES):
            tracer.start_span("bare").end()

    return make


def _delivery(number: int, consumer: Any) -> Any:
    from django_dbqueue.models import Message

    message = Message(pk=number, queue="q", headers_text=HEADERS)
    message._state.db = "default"
    return SimpleNamespace(
        message=message, consumer=consumer, reads=1, claim=SimpleNamespace(id=number), trace=None, is_lost=False
    )


def _set_up(mode: str) -> None:
    import django
    from django.conf import settings
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

    class Nowhere(SpanExporter):
        def export(self, _: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    if mode in ("unsampled", "recorded", "metrics"):
        provider = TracerProvider(sampler=ALWAYS_OFF if mode == "unsampled" else ALWAYS_ON)
        provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=1_000_000))
        trace.set_tracer_provider(provider)
    if mode == "metrics":
        metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_dbqueue"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        DBQUEUE={"TRACE": mode != "off"},
    )
    django.setup()
    logging.getLogger("django_dbqueue.hooks").addHandler(_Refusal())


class _Refusal(logging.Handler):
    """An instrument that fails is logged, and its message goes on: here, it would pass for a measurement."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.exit(f"{record.getMessage()}: {record.exc_info[1]!r}" if record.exc_info else record.getMessage())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
    else:
        main()
