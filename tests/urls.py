from __future__ import annotations

from django.contrib import admin
from django.http import HttpResponse
from django.urls import include, path

from django_dbqueue.contrib.health_view import HealthView
from django_dbqueue.contrib.openmetrics.metrics_view import metrics

urlpatterns = [
    path("admin/", admin.site.urls),
    path("metrics", metrics),
    path("health", HealthView.as_view()),
    path("progress/", include("django_dbqueue.urls")),
    path("members", lambda _request: HttpResponse("the project's own page")),
]
