"""OpenTelemetry by its API alone (extra ``otel``): spans, trace context in the messages' headers, metrics, log fields.

It watches from the start if ``opentelemetry-api`` is installed and a provider of traces or metrics is set by then;
``DBQUEUE["TRACE"]`` overrides that.
"""
