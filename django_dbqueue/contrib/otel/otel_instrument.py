"""Spans and metrics of what happens to messages, by the messaging conventions of OpenTelemetry.

A handler's run is a trace of its own that links to the message's creation context, or, with
``DBQUEUE["TRACE_AS_PARENT"]``, its child. A retry and a replay link to it likewise.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from itertools import islice
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, NonRecordingSpan, SpanKind, Status, StatusCode

from django_dbqueue import __version__, conf
from django_dbqueue.contrib.otel.carrying import brought_by, carried, context_of_text, link_to
from django_dbqueue.contrib.otel.conventions import (
    BATCH_COUNT,
    ERROR_TYPE,
    GROUP,
    MESSAGE_ID,
    OUTCOME,
    SCHEMA_URL,
    Operation,
    identity_of,
    operation_on,
)
from django_dbqueue.contrib.otel.measures import Measures
from django_dbqueue.contrib.otel.process_span import ProcessSpan
from django_dbqueue.contrib.sent_headers import with_headers
from django_dbqueue.envelope import Envelope
from django_dbqueue.hooks import FAILED, Instrument

MOST_LINKS: Final = 128
"""Links of a span; the SDK drops the others, unless it is told otherwise."""

logger = logging.getLogger("django_dbqueue.hooks")


class OTelInstrument(Instrument):
    """The instrument; its tracer and meter are those of the providers that are set, also if they are set later."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("django_dbqueue", __version__, schema_url=SCHEMA_URL)
        self._measures = Measures()
        self._is_parent = bool(conf.get("TRACE_AS_PARENT"))

    # -- senders ------------------------------------------------------------------------------------------

    def send(self, envelope: Any, queue: str, using: str, store: Callable[[Any], Any]) -> Any:
        """See ``Instrument``. The span's context is the message's creation context."""
        if not isinstance(queue, str):
            return store(envelope)  # which refuses it
        try:
            brought = brought_by(envelope.headers)
            running = self._begin_sending(queue, using, () if brought.link is None else (brought.link,))
            if not brought.is_own:
                envelope = with_headers(envelope, carried(running.context))
        except Exception:
            logger.exception(FAILED)
            return store(envelope)
        with running:
            message = store(envelope)
            running.number = 1
            if running.span.is_recording():
                running.span.set_attribute(MESSAGE_ID, str(message.pk))
                if envelope.group is not None:
                    running.span.set_attribute(GROUP, envelope.group)
                if message.outcome != "created":
                    running.span.set_attribute(OUTCOME, message.outcome)
        return message

    def send_many(self, items: Iterable[Any], queue: str, using: str, store: Callable[[Iterable[Any]], Any]) -> Any:
        """See ``Instrument``. One span, whose context is the creation context of all."""
        try:
            running = self._begin_sending(queue, using, ())
            added = carried(running.context)
        except Exception:
            logger.exception(FAILED)
            return store(items)

        def enclosed(item: Any) -> Any:
            envelope = item if isinstance(item, Envelope) else Envelope(item)
            return envelope if brought_by(envelope.headers).is_own else with_headers(envelope, added)

        with running:
            report = store(
                [enclosed(each) for each in items] if isinstance(items, list | tuple) else map(enclosed, items)
            )
            running.number = report.total
            running.span.set_attribute(BATCH_COUNT, report.total)
        return report

    def _begin_sending(self, queue: str, using: str, links: Sequence[Link]) -> Running:
        operation = operation_on(queue, "enqueue", "send", using)
        span = self._tracer.start_span(
            operation.name, kind=SpanKind.PRODUCER, attributes=operation.attributes, links=links
        )
        return Running(span, trace.set_span_in_context(span), operation, self._measures.sent)

    # -- receivers ----------------------------------------------------------------------------------------

    def receive(self, queue: str, using: str, take: Callable[[], list[Any]]) -> list[Any]:
        """See ``Instrument``. A claim that finds nothing leaves no span."""
        start, began = time.time_ns(), time.perf_counter()
        messages = take()
        if messages:
            operation = operation_on(queue, "claim", "receive", using)
            links = (link_to(context_of_text(message.headers_text), identity_of(message)) for message in messages)
            self._record(operation, start, links, len(messages))
            self._measures.received(len(messages), time.perf_counter() - began, operation)
        return messages

    def begin(self, deliveries: Sequence[Any]) -> ProcessSpan:
        """See ``Instrument``. The span is current in the handler."""
        return ProcessSpan(self._tracer, self._measures, deliveries, is_child=self._is_parent)

    # -- settlements --------------------------------------------------------------------------------------

    def settle(self, verb: str, queue: str, using: str, subjects: Sequence[Any], work: Callable[[], Any]) -> Any:
        """See ``Instrument``. For one delivery it is a child of its handler's run, also if that has ended."""
        try:
            running = self._begin_settling(operation_on(queue, verb, "settle", using), subjects)
        except Exception:
            logger.exception(FAILED)
            return work()
        with running:
            result = work()
            if any(_is_lost(each) for each in subjects):
                running.fail("LeaseLost", "its claim was lost")
        return result

    def _begin_settling(self, operation: Operation, subjects: Sequence[Any]) -> Running:
        attributes = operation.attributes.copy()
        context = None
        if len(subjects) == 1:
            attributes[MESSAGE_ID] = str(subjects[0].claim.id)
            ran = getattr(subjects[0], "trace", None)
            context = None if ran is None else trace.set_span_in_context(NonRecordingSpan(ran))
        else:
            attributes[BATCH_COUNT] = len(subjects)
        span = self._tracer.start_span(operation.name, context, SpanKind.CLIENT, attributes)
        return Running(
            span,
            trace.set_span_in_context(span, context),
            operation,
            lambda _, seconds, *rest: self._measures.settled(seconds, *rest),
        )

    def acked(self, deliveries: Sequence[Any], using: str, seconds: float) -> None:
        """See ``Instrument``. One span for what was one statement, with a link to each handler's run."""
        queues = {delivery.consumer.queue for delivery in deliveries}
        operation = operation_on(queues.pop() if len(queues) == 1 else "", "ack", "settle", using)
        links = (Link(delivery.trace) for delivery in deliveries if delivery.trace is not None)
        self._record(operation, time.time_ns() - round(seconds * 1e9), links, len(deliveries))
        self._measures.settled(seconds, operation)

    def _record(self, operation: Operation, start: int, links: Iterable[Link | None], number: int) -> None:
        """Leave the span of an operation that has just ended."""
        self._tracer.start_span(
            operation.name,
            kind=SpanKind.CLIENT,
            attributes={**operation.attributes, BATCH_COUNT: number},
            links=list(islice((link for link in links if link is not None), MOST_LINKS)),
            start_time=start,
        ).end()

    # -- the process --------------------------------------------------------------------------------------

    def log_fields(self) -> Mapping[str, object]:
        """See ``Instrument``."""
        return ids_of_the_current_span()

    def flush(self, seconds: float) -> None:
        """See ``Instrument``. The API has no word for it; the SDK's providers have."""
        until = time.monotonic() + seconds
        for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
            force = getattr(provider, "force_flush", None)
            if force is not None:
                force(max(1, round((until - time.monotonic()) * 1000)))


class Running:
    """An operation in progress: its span is current within the block, and ends with it, whatever it raises."""

    __slots__ = ("_began", "_error", "_measure", "_operation", "_token", "context", "number", "span")

    def __init__(self, span: trace.Span, context: Context, operation: Operation, measure: Callable[..., None]) -> None:
        self.span = span
        self.context = context
        self.number = 0
        """How many messages it was about; of one that failed, whatever it was about."""
        self._operation = operation
        self._measure = measure
        self._error: str | None = None
        self._began = 0.0
        self._token: Token[Context] | None = None

    def __enter__(self) -> None:
        self._token = attach(self.context)
        self._began = time.perf_counter()

    def fail(self, error: str, description: str) -> None:
        """Note that it has failed, and with what class of error."""
        self._error = error
        self.span.set_attribute(ERROR_TYPE, error)
        self.span.set_status(Status(StatusCode.ERROR, description))

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        seconds = time.perf_counter() - self._began
        assert self._token is not None
        detach(self._token)
        if error is not None:
            self.fail(type(error).__qualname__, f"{type(error).__qualname__}: {error}".partition("\n")[0][:500])
            self.number = self.number or 1
        self._measure(self.number, seconds, self._operation, self._error)
        self.span.end()


def ids_of_the_current_span() -> dict[str, str]:
    """Return the trace and span id of where this is called, as logs write them; {} outside any span."""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(span.trace_id), "span_id": trace.format_span_id(span.span_id)}


def _is_lost(subject: Any) -> bool:
    return bool(subject.is_lost if hasattr(subject, "is_lost") else subject.lease_lost)
