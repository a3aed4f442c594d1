"""A span for each request, as instrumentations of Django make them, by the API alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import baggage, propagate, trace
from opentelemetry.context import attach, detach

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse


def traced(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    tracer = trace.get_tracer("tests")

    def respond(request: HttpRequest) -> HttpResponse:
        context = propagate.extract({name.lower(): value for name, value in request.headers.items()})
        token = attach(baggage.set_baggage("customer", "17", context))
        try:
            with tracer.start_as_current_span(f"{request.method} {request.path}", kind=trace.SpanKind.SERVER):
                return get_response(request)
        finally:
            detach(token)

    return respond
