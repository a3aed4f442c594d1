"""Trace context in the headers of messages: written at enqueue, read before the handler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags

from django_dbqueue.codecs import decode_headers
from django_dbqueue.exceptions import UndecodableMessage
from django_dbqueue.operations.ways import SENT_AGAIN_FROM

EMPTY: Final = Context()
_LAST: Final = re.compile(r'[{,]"traceparent":"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})"}\Z')
"""Of the outermost object: an inner one would leave another brace behind it."""
_OTHERS: Final = re.compile('"(?:tracestate|baggage)"')
_W3C: Final = {"traceparent", "tracestate", "baggage"}


def carried(context: Context) -> dict[str, str]:
    """Return the headers by which the project's propagators carry a context."""
    headers: dict[str, str] = {}
    propagate.inject(headers, context)
    return headers


class Brought(NamedTuple):
    """The context that a message brings along when it is sent."""

    link: Link | None
    is_own: bool
    """Whether its sender has given it, so that it stays; a replay's is the original's."""


NOTHING: Final = Brought(None, is_own=False)


def brought_by(headers: Any) -> Brought:
    """Return what headers bring along."""
    if not headers or not isinstance(headers, dict):
        return NOTHING
    link = link_to(context_of(headers))
    return Brought(link, is_own=link is not None and SENT_AGAIN_FROM not in headers)


def context_of(headers: Mapping[str, object]) -> Context | None:
    """Return the context that headers carry; None if they carry none."""
    fields = propagate.get_global_textmap().fields
    carrier = {name: value for name, value in headers.items() if name in fields and isinstance(value, str)}
    return propagate.extract(carrier, EMPTY) if carrier else None


@cache
def _is_w3c(propagator: TextMapPropagator) -> bool:
    return propagator.fields == _W3C


def lone_span(text: str | None) -> SpanContext | None:
    """Return the span that a message's headers name, if they carry nothing else of a context; else None.

    Most carry a traceparent alone, as their last header; reading it here takes a third of the propagators' time.
    """
    if text is None:
        return None
    if (found := _LAST.search(text)) and _is_w3c(propagate.get_global_textmap()) and not _OTHERS.search(text):
        trace_id, span_id, flags = found.groups()
        return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
    return None


def context_of_text(text: str | None) -> Context | None:
    """Return the context that a message's headers carry; None if they carry none, or can't be decoded."""
    if text is None:
        return None
    if (span := lone_span(text)) is not None:
        return trace.set_span_in_context(NonRecordingSpan(span), EMPTY)
    try:
        return context_of(decode_headers(text))
    except UndecodableMessage:
        return None


def span_in(context: Context | None) -> SpanContext | None:
    """Return the span of a context, if it has one."""
    found = None if context is None else trace.get_current_span(context).get_span_context()
    return found if found is not None and found.is_valid else None


def link_to(context: Context | None, attributes: Mapping[str, str | int] | None = None) -> Link | None:
    """Return a link to the span of a context, if it has one."""
    span = span_in(context)
    return None if span is None else Link(span, attributes)
