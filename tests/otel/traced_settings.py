"""A project that sets OpenTelemetry up before Django, as most do; what it measures goes into files."""

from __future__ import annotations

import os

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.otel.span_file import MetricFile, SpanFile
from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS, MIDDLEWARE

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(SpanFile(os.environ["DBQUEUE_TEST_SPANS"])))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(
    MeterProvider([PeriodicExportingMetricReader(MetricFile(os.environ["DBQUEUE_TEST_METRICS"]))])
)

INSTALLED_APPS = [*INSTALLED_APPS, "tests.traced_app"]
MIDDLEWARE = ["tests.traced_app.middleware.traced", *MIDDLEWARE]
ROOT_URLCONF = "tests.traced_app.urls"
ALLOWED_HOSTS = ["127.0.0.1"]
