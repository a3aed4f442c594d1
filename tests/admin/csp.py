from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


def strict_policy(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: nothing inline, nothing from elsewhere."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = "default-src 'self'"
        return response

    return middleware
