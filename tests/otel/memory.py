"""What this process exports, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class Memory:
    """What was exported in this process."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.metering = MeterProvider([self.reader])

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def names(self) -> list[str]:
        return [span.name for span in self._exporter.get_finished_spans()]

    def span(self, name: str) -> ReadableSpan:
        [span] = self.spans(name)
        return span

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        found = [] if data is None else data.resource_metrics
        return [
            point
            for resource in found
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
