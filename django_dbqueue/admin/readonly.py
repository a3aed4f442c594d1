"""What all our admin pages share: nothing is added, edited or deleted, and a URL can't filter by a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import flatten_fieldsets
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import DateTimeField, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_dbqueue.admin import display
from django_dbqueue.sessions.django_session import DjangoSession, session_for
from django_dbqueue.states.counts import grouped

LOG_READ: Final = 10_000
"""Entries of the admin log that a history page searches: no index finds those of one row."""


def _zone_of(subtitle: object) -> dict[str, object]:
    """Add to a page's subtitle that its times are UTC, if the project's own are local: with USE_TZ they all are."""
    if settings.USE_TZ:
        return {}
    zone = _("times in UTC")
    return {"subtitle": f"{subtitle} ({zone})" if subtitle else zone}


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A read-only view of rows from the write database; a replica would show them as they were."""

    actions: Sequence[Any] | None = ()
    sortable_by = ()
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False
    list_max_show_all = 0

    class Media:
        css = {"all": ("django_dbqueue/admin.css",)}

    @property
    def session(self) -> DjangoSession:
        """On the database that the queue lives in, whatever the routers say of the admin's other models."""
        return session_for(self.model)

    @property
    def alias(self) -> str:
        """The alias of that database."""
        return self.session.using

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(self.alias)

    # -- what is shown ------------------------------------------------------------------------------------

    def get_list_display(self, request: HttpRequest) -> Any:
        return self.to_the_second(super().get_list_display(request))

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [(None, {"fields": self.to_the_second(self.get_fields(request, obj))})]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return flatten_fieldsets(self.get_fieldsets(request, obj))

    def to_the_second(self, names: Sequence[Any]) -> list[Any]:
        """Return these columns and fields, with moments shown to the second."""
        moments = {field.name: field for field in self.opts.get_fields() if isinstance(field, DateTimeField)}
        return [display.moment(moments[name]) if name in moments else name for name in names]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Call the list what it lists: Django says *Select … to view*."""
        changelist: Any = super().get_changelist_instance(request)
        changelist.title = capfirst(str(self.opts.verbose_name_plural))
        return changelist

    # -- permissions --------------------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return False

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        if request.method not in {"GET", "HEAD"} and not self.has_change_permission(request):
            raise PermissionDenied
        return super().change_view(request, object_id, form_url, extra_context)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().render_change_form(request, context | _zone_of(context.get("subtitle")), *args, **kwargs)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        context = extra_context or {}
        return super().changelist_view(request, context | _zone_of(context.get("subtitle")))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        """Show the row's entries in the admin log, as far back as it is searched."""
        title = _("Change history, in the latest %(n)s actions of the admin") % {"n": grouped(LOG_READ)}
        return super().history_view(request, object_id, {"title": title, **(extra_context or {})})

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **kwargs: Any
    ) -> Paginator[Any]:
        if getattr(queryset, "model", None) is LogEntry:
            newest = LogEntry.objects.using(queryset.db).order_by("-pk").values_list("pk", flat=True).first() or 0
            queryset = queryset.filter(pk__gt=newest - LOG_READ)
        return super().get_paginator(request, queryset, per_page, *args, **kwargs)

    def lookup_allowed(self, lookup: str, value: object, request: HttpRequest | None = None) -> bool:  # noqa: ARG002
        """Allow only the page's own filters: ``?body__contains=`` would scan, and reveal what may not be seen."""
        filters = () if request is None else self.get_list_filter(request)
        return any(lookup == getattr(item, "parameter_name", None) for item in filters)
