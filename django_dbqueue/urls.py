"""``path("progress/", include("django_dbqueue.urls"))``: where signed progress links lead."""

from __future__ import annotations

from django.urls import path

from django_dbqueue.progress.progress_view import progress

app_name = "dbqueue"
urlpatterns = [path("<str:token>", progress, name="progress")]
