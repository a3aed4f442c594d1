from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.urls import path

from tests.traced_app.jobs import bill


def order(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"id": bill.enqueue(7).id})


urlpatterns = [path("order", order)]
