"""The two filters of the message list. They define what is listed; the walk over the index does the listing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from django_dbqueue.admin.bounded_lists import walk_of
from django_dbqueue.admin.states import STATES
from django_dbqueue.envelope import QUEUE_NAME


class StateFilter(admin.SimpleListFilter):
    """One state at a time; there is no list of all, since no index supports it."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, _request: HttpRequest, _model_admin: object) -> list[tuple[str, Any]]:
        return [(state.name, capfirst(state.label)) for state in STATES.values()]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset

    def choices(self, changelist: Any) -> Iterator[dict[str, object]]:  # type: ignore[override]
        if changelist.query:
            yield {
                "selected": changelist.state is None,
                "query_string": changelist.get_query_string(remove=[self.parameter_name]),
                "display": _("All"),
            }
        for name, label in self.lookup_choices:
            yield {
                "selected": changelist.state is STATES[name],
                "query_string": changelist.get_query_string({self.parameter_name: name}),
                "display": label,
            }


class QueueFilter(admin.SimpleListFilter):
    """One queue, or each in turn."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in walk_of(request, model_admin.alias).queues]

    def value(self) -> str | None:
        """Return the requested queue; an impossible name is ignored."""
        name = super().value()
        return name if name and QUEUE_NAME.match(name) else None

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset
