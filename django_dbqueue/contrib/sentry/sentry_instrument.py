"""Spans for Sentry's Queues page, and the beginning and good end of check-ins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Protocol

import sentry_sdk
from sentry_sdk.consts import OP, SPANDATA, SPANSTATUS
from sentry_sdk.tracing import BAGGAGE_HEADER_NAME, SENTRY_TRACE_HEADER_NAME, TransactionSource

from django_dbqueue.codecs import decode_headers
from django_dbqueue.contrib.sent_headers import with_headers
from django_dbqueue.contrib.sentry.check_ins import CheckIn, check_in_of
from django_dbqueue.contrib.sentry.in_order import in_order
from django_dbqueue.envelope import Envelope
from django_dbqueue.exceptions import UndecodableMessage
from django_dbqueue.hooks import Instrument
from django_dbqueue.tasks.task_headers import task_named

ORIGIN: Final = "auto.queue.django_dbqueue"
FLUSHED_WITHIN: Final = 2.0
"""Seconds for which a handler's thread waits until a check-in is sent, so that it is before its message is done."""
_SUCCESSES: Final = ("ack", "acked", "nothing")
_FAILURES: Final = ("nack", "reject", "cut off")


class Chosen(Protocol):
    """Which of its parts a project has turned on."""

    spans: bool
    check_ins: bool


class SentryInstrument(Instrument):
    """The instrument; ``chosen`` returns the active client's integration, or None."""

    def __init__(self, chosen: Callable[[], Chosen | None]) -> None:
        self._chosen = chosen

    def send(self, envelope: Any, queue: str, using: str, store: Callable[[Any], Any]) -> Any:
        """See ``Instrument``."""
        if not self._traces():
            return store(envelope)
        with sentry_sdk.start_span(op=OP.QUEUE_PUBLISH, name=str(queue), origin=ORIGIN) as span:
            message = store(_carrying(envelope))
            span.set_data(SPANDATA.MESSAGING_MESSAGE_ID, str(message.pk))
            span.set_data(SPANDATA.MESSAGING_DESTINATION_NAME, queue)
            span.set_data("messaging.message.body.size", len(message.body.encode()))
        return message

    def send_many(self, items: Iterable[Any], queue: str, using: str, store: Callable[[Iterable[Any]], Any]) -> Any:
        """See ``Instrument``."""
        if not self._traces():
            return store(items)

        def enclosed(item: Any) -> Any:
            return _carrying(item if isinstance(item, Envelope) else Envelope(item))

        with sentry_sdk.start_span(op=OP.QUEUE_PUBLISH, name=queue, origin=ORIGIN) as span:
            span.set_data(SPANDATA.MESSAGING_DESTINATION_NAME, queue)
            several = [enclosed(each) for each in items] if isinstance(items, list | tuple) else map(enclosed, items)
            report = store(several)
            span.set_data("messaging.batch.message_count", report.total)
        return report

    def begin(self, deliveries: Sequence[Any]) -> _HandlerRun | None:
        """See ``Instrument``."""
        integration = self._chosen()
        if integration is None:
            return None
        return _HandlerRun(deliveries, spans=integration.spans, check_ins=integration.check_ins)

    def flush(self, seconds: float) -> None:
        """See ``Instrument``."""
        until = time.monotonic() + seconds
        in_order.flush(seconds)
        sentry_sdk.flush(timeout=max(0.0, until - time.monotonic()))

    def _traces(self) -> bool:
        integration = self._chosen()
        return integration is not None and integration.spans


class _HandlerRun:
    """A handler's run: a scope of its own, a transaction that continues its sender's trace, and check-ins."""

    def __init__(self, deliveries: Sequence[Any], *, spans: bool, check_ins: bool) -> None:
        found = [(each.claim.id, check_in_of(each.message.headers_text)) for each in deliveries] if check_ins else []
        self._check_ins: dict[int, CheckIn] = {id_: check_in for id_, check_in in found if check_in is not None}
        self._began = time.monotonic()
        with ExitStack() as stack:
            self._span = self._enter(stack, deliveries, spans=spans)
            for check_in in self._check_ins.values():
                self._do(check_in, partial(check_in.begin, deliveries[0].session.using))
            self._stack = stack.pop_all()  # until the end, now that nothing can fail any more

    @staticmethod
    def _do(check_in: CheckIn, what: Callable[[], None]) -> None:
        """Send a status; that of a schedule that isn't declared follows a query, for which no event loop may wait."""
        if check_in.is_declared:
            what()
        else:
            in_order.do(what)

    @staticmethod
    def _enter(stack: ExitStack, deliveries: Sequence[Any], *, spans: bool) -> Any:
        """Enter a scope, and a transaction if there is to be one, which is returned."""
        scope = stack.enter_context(sentry_sdk.isolation_scope())
        scope.clear_breadcrumbs()
        first = deliveries[0]
        queue, task = first.consumer.queue, task_named(first.message.headers_text)
        scope.set_tag("dbqueue.queue", queue)
        if not spans:
            return None
        span = stack.enter_context(_transaction(first, task or queue))
        span.set_data(SPANDATA.MESSAGING_DESTINATION_NAME, queue)
        if len(deliveries) > 1:
            span.set_data("messaging.batch.message_count", len(deliveries))
        else:
            _describe(span, first)
        return span

    def end(self, ended: Sequence[tuple[Any, Any]]) -> None:
        """See ``hooks.Attempt``."""
        if self._span is not None:
            failed = any(verdict.verb in _FAILURES for _, verdict in ended)
            self._span.set_status(SPANSTATUS.INTERNAL_ERROR if failed else SPANSTATUS.OK)
        self._stack.close()
        if not self._check_ins:
            return
        for delivery, verdict in ended:
            check_in = self._check_ins.get(delivery.claim.id)
            if check_in is not None and verdict.verb in _SUCCESSES and not delivery.is_lost:
                self._do(check_in, partial(check_in.send, "ok", seconds=time.monotonic() - self._began))
        if not ended[0][0].consumer.is_async:  # whose thread must not wait
            sentry_sdk.flush(timeout=FLUSHED_WITHIN)


def _transaction(delivery: Any, name: str) -> Any:
    try:
        headers = decode_headers(delivery.message.headers_text)
    except UndecodableMessage:
        headers = {}
    carried = {
        header: value
        for header in (SENTRY_TRACE_HEADER_NAME, BAGGAGE_HEADER_NAME)
        if isinstance(value := headers.get(header), str)
    }
    return sentry_sdk.start_transaction(
        sentry_sdk.continue_trace(carried, op=OP.QUEUE_PROCESS, name=name, source=TransactionSource.TASK, origin=ORIGIN)
    )


def _describe(span: Any, delivery: Any) -> None:
    message = delivery.message
    span.set_data(SPANDATA.MESSAGING_MESSAGE_ID, str(delivery.claim.id))
    span.set_data(SPANDATA.MESSAGING_MESSAGE_RETRY_COUNT, delivery.reads - 1)
    waited = (message.claimed_at - message.due_at).total_seconds()
    span.set_data(SPANDATA.MESSAGING_MESSAGE_RECEIVE_LATENCY, round(max(0.0, waited) * 1000, 3))


def _carrying(envelope: Envelope) -> Envelope:
    """Return the envelope with the trace that it is sent in, unless it brings one along."""
    trace, baggage = sentry_sdk.get_traceparent(), sentry_sdk.get_baggage()
    headers: Any = envelope.headers
    if trace is None or (isinstance(headers, dict) and SENTRY_TRACE_HEADER_NAME in headers):
        return envelope
    added = {SENTRY_TRACE_HEADER_NAME: trace}
    return with_headers(envelope, added if not baggage else {**added, BAGGAGE_HEADER_NAME: baggage})
