"""Telemetry as lines of files that processes share."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.trace import ReadableSpan


class SpanFile(SpanExporter):
    """Each span is a line of JSON; a single write of O_APPEND is not torn by other processes."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            append(self._path, json.loads(span.to_json()) | {"pid": os.getpid()})
        return SpanExportResult.SUCCESS


class MetricFile(MetricExporter):
    """Each export is a line of JSON."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: Any) -> MetricExportResult:
        append(self._path, json.loads(metrics_data.to_json()) | {"pid": os.getpid()})
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        return


def append(path: str, line: dict[str, Any]) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)


def read(path: Path) -> list[dict[str, Any]]:
    """Return what all processes have written so far, without the line that one is just writing."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
