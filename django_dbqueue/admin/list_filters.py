"""The filters of the message list. They define what is listed; the walk over the index does the listing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from django_dbqueue.admin.bounded_lists import LIST_CAP, Wanted, reach, walk_of
from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.admin.task_names import PATH, tasks_of
from django_dbqueue.envelope import QUEUE_NAME
from django_dbqueue.models import Failure
from django_dbqueue.typed_values import MAX_ID, typed_whole


class StateFilter(admin.SimpleListFilter):
    """One state at a time; there is no list of all, since no index supports it."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, _request: HttpRequest, _model_admin: object) -> list[tuple[str, Any]]:
        return [(state.name, capfirst(state.label)) for state in WORDS.values()]

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
                "selected": changelist.state is WORDS[name],
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


class TaskFilter(admin.SimpleListFilter):
    """One task of those among the first messages of the list, if any of them is a task."""

    title = _("task")
    parameter_name = "task"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = self.value()
        queue, text = request.GET.get("queue", ""), request.GET.get("q", "").strip()
        wanted = Wanted(WORDS.get(request.GET.get("state", "")), queue if QUEUE_NAME.match(queue) else None, text)
        walk = walk_of(request, model_admin.alias)
        _state, ids = wanted.ids(walk, lambda found: found, limit=reach(chosen))
        names = {*tasks_of(walk.using, ids[:LIST_CAP]).values(), *([chosen] if chosen else [])}
        return [(name, name) for name in sorted(names) if PATH.match(name)]

    def value(self) -> str | None:
        """Return the requested task; an impossible name is ignored."""
        name = super().value()
        return name if name and PATH.match(name) else None

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset


class FailureFilter(admin.SimpleListFilter):
    """The dead messages of one failure group, to which its page links; nothing is offered without one."""

    title = _("failure")
    parameter_name = "failure"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        number = self.value()
        if number is None:
            return []
        may = request.user.has_perm("django_dbqueue.view_failure")
        row = Failure.objects.using(model_admin.alias).filter(pk=int(number)).first() if may else None
        return [(number, f"#{number}" if row is None else str(row))]

    def value(self) -> str | None:
        """Return the requested group's number; anything else is ignored."""
        number = typed_whole(super().value() or "", 0, MAX_ID)
        return None if number is None else str(number)

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset
