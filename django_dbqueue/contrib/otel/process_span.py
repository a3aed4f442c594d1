"""The span of a handler's run, current while it runs, with what follows from its verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import SpanKind, Status, StatusCode

from django_dbqueue.contrib.otel.carrying import EMPTY, context_of_text, link_to, lone_span
from django_dbqueue.contrib.otel.conventions import (
    BATCH_COUNT,
    ERROR_TYPE,
    FUNCTION,
    READS,
    Attributes,
    Operation,
    identity_of,
    operation_on,
)
from django_dbqueue.contrib.otel.measures import Measures
from django_dbqueue.failures.fingerprint import kind_of
from django_dbqueue.tasks.task_headers import task_named

FAILURES: Final = ("nack", "reject", "cut off")
"""Verdicts that say that the handler has failed."""


class ProcessSpan:
    """A run. Its deliveries keep the span's context, for their settlement."""

    __slots__ = ("_began", "_measures", "_operation", "_span", "_token")

    def __init__(self, tracer: trace.Tracer, measures: Measures, deliveries: Sequence[Any], *, is_child: bool) -> None:
        self._measures = measures
        consumer = deliveries[0].consumer
        using = deliveries[0].message._state.db
        self._operation: Operation = operation_on(consumer.queue, "process", "process", using)
        attributes = self._operation.attributes.copy()
        base = EMPTY
        if len(deliveries) == 1 and consumer.batch is None:
            base, links = _of_one(deliveries[0], attributes, is_child=is_child)
        else:
            attributes[BATCH_COUNT] = len(deliveries)
            found = [
                link_to(context_of_text(each.message.headers_text), identity_of(each.message)) for each in deliveries
            ]
            links = [link for link in found if link is not None]
        self._span = tracer.start_span(self._operation.name, base, SpanKind.CONSUMER, attributes, links)
        for each in deliveries:
            each.trace = self._span.get_span_context()
        self._token = attach(trace.set_span_in_context(self._span, base))
        self._began = time.perf_counter()

    def end(self, ended: Sequence[tuple[Any, Any]]) -> None:
        """See ``hooks.Attempt``."""
        seconds = time.perf_counter() - self._began
        detach(self._token)
        error = None
        failed = next((each[1] for each in ended if each[1].verb in FAILURES), None)
        if failed is not None:
            error = kind_of(failed.error, failed.exception).exception
            self._span.set_attribute(ERROR_TYPE, error)
            self._span.set_status(Status(StatusCode.ERROR, failed.error.partition("\n")[0][:500]))
        self._measures.processed(len(ended), seconds, self._operation, error)
        self._span.end()


def _of_one(delivery: Any, attributes: Attributes, *, is_child: bool) -> tuple[Context, list[trace.Link]]:
    """Return the context in which the run of one message begins, and its links; say what is known of it."""
    message = delivery.message
    attributes |= identity_of(message)
    if delivery.consumer.runner is not None and (task := task_named(message.headers_text)) is not None:
        attributes[FUNCTION] = task
    if delivery.reads > 1:
        attributes[READS] = delivery.reads
    if not is_child and (span := lone_span(message.headers_text)) is not None and span.is_valid:
        return EMPTY, [trace.Link(span)]
    sent_in = context_of_text(message.headers_text)
    link = link_to(sent_in)
    if sent_in is None or link is None:
        return EMPTY if sent_in is None else sent_in, []
    if is_child:
        return sent_in, [link]
    return trace.set_span_in_context(trace.INVALID_SPAN, sent_in), [link]  # with its baggage
