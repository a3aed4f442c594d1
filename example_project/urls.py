"""The admin is the whole site; the root leads there."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

admin.site.site_header = "django_dbqueue example"
admin.site.site_title = "django_dbqueue example"
admin.site.index_title = "Flights and their queue"

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
]
