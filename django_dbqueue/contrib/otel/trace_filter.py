"""Trace ids on the log records of any handler."""

from __future__ import annotations

import logging

from django_dbqueue.contrib.otel.otel_instrument import ids_of_the_current_span


class TraceFilter(logging.Filter):
    """A filter for ``LOGGING`` that drops nothing and gives each record ``trace_id`` and ``span_id``.

    They are hexadecimal, and '' outside any span.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids."""
        ids = ids_of_the_current_span()
        record.trace_id, record.span_id = ids.get("trace_id", ""), ids.get("span_id", "")
        return True
