"""Failures, grouped by the class of the exception and the place that raised it; requeue or drop all of a group."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import display_for_value, quote
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from django_dbqueue.admin import display
from django_dbqueue.admin.bounded_lists import LIST_CAP, BoundedChangeList
from django_dbqueue.admin.bulk_orders import Ordering
from django_dbqueue.admin.list_filters import QueueFilter
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.consumers import has_consumer, registered
from django_dbqueue.insight import failure_groups
from django_dbqueue.lifecycle import bulk
from django_dbqueue.lifecycle.django_session import session_of
from django_dbqueue.lifecycle.fingerprint import names_class
from django_dbqueue.lifecycle.operator_verbs import VERBS, Verb
from django_dbqueue.models import BulkOperation, Failure, Message
from django_dbqueue.models.fields import to_utc
from django_dbqueue.redaction.policy import error_text

FOR_GROUPS = ("requeue", "drop")
"""What can be done to all dead messages of a group."""
EXAMPLES = 10

if TYPE_CHECKING:

    class ShownFailure(Failure):
        """A group, with the summary of its events and what the user may see of it."""

        group: failure_groups.Group
        shown_messages: list[int]
        shown_exception: str
        shown_place: str


class FailureChangeList(BoundedChangeList):
    """The most recently seen first, of one queue or of all."""

    heavy = ()

    def find_ids(self, _request: HttpRequest) -> list[int]:
        said = {spec.parameter_name: spec.value() for spec in self.filter_specs}  # type: ignore[attr-defined]
        return failure_groups.newest_first(session_of(self.root_queryset.db), said.get("queue"), LIST_CAP + 1)


@admin.register(Failure)
class FailureAdmin(ReadOnlyAdmin):
    """Failure groups, counted by their newest events."""

    list_display = ("kind", "place_shown", "queue", "count", "dead", "example", "last_seen", "first_seen")
    list_display_links = ("kind",)
    list_filter = (QueueFilter,)
    list_per_page = 25
    fields = ("kind", "place_shown", "queue", "first_seen", "last_seen", "count", "dead", "examples")
    readonly_fields = fields

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[FailureChangeList]:  # noqa: ARG002
        return FailureChangeList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"cap": LIST_CAP, **(extra_context or {})})

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist: Any = super().get_changelist_instance(request)
        changelist.title = capfirst(str(self.opts.verbose_name_plural))
        self._look_at(request, changelist.result_list)
        return changelist

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> ShownFailure | None:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            self._look_at(request, [row])
        return row

    def _look_at(self, request: HttpRequest, rows: list[ShownFailure]) -> None:
        """Give each row the summary of its events, and which of its messages can be viewed."""
        sees_payload = request.user.has_perm("django_dbqueue.view_payload")
        sees_messages = request.user.has_perm("django_dbqueue.view_message")
        found = failure_groups.groups(session_of(self.alias), [row.pk for row in rows])
        ids = {pk for group in found.values() for pk in group.messages[:EXAMPLES]} if sees_messages else set()
        there = set(Message.objects.using(self.alias).filter(pk__in=ids).values_list("pk", flat=True))
        for row in rows:
            row.group = found.get(row.pk, failure_groups.NOTHING)
            row.shown_messages = [pk for pk in row.group.messages[:EXAMPLES] if pk in there]
            for name in ("exception", "place"):
                setattr(row, f"shown_{name}", _shown(row, name, sees_payload=sees_payload))

    # -- a group ------------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        urls = [
            path(
                f"<int:pk>/{name}/",
                self.admin_site.admin_view(partial(self.ask, verb=VERBS[name])),
                name=f"django_dbqueue_failure_{name}",
            )
            for name in FOR_GROUPS
        ]
        return [*urls, *super().get_urls()]

    def ask(self, request: HttpRequest, pk: int, *, verb: Verb) -> HttpResponse:
        """Show what would be done to all dead messages of a group."""
        if request.method not in {"GET", "HEAD"}:
            return HttpResponseNotAllowed(["GET", "HEAD"])
        ordering = self._ordering()
        if not ordering.allowed(request, verb, failure=True):
            raise PermissionDenied
        if self.get_object(request, str(pk)) is None:
            raise Http404
        selection = bulk.Selection.now(session_of(self.alias), state="dead", failure=pk)
        return ordering.ask(request, verb, selection, back=self._url("change", pk))

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        obj, ordering = context["original"], self._ordering()
        context["title"] = obj.shown_exception
        context["verbs"] = [
            {"label": _("%(verb)s all") % {"verb": VERBS[name].label}, "name": name, "url": self._url(name, obj.pk)}
            for name in FOR_GROUPS
            if obj.group.dead and ordering.allowed(request, VERBS[name], failure=True)
        ]
        return super().render_change_form(request, context, *args, **kwargs)

    def _ordering(self) -> Ordering:
        return Ordering(self.admin_site.get_model_admin(BulkOperation))

    def _url(self, view: str, *args: int | str) -> str:
        name = f"admin:django_dbqueue_failure_{view}"
        return reverse(name, args=[quote(arg) for arg in args], current_app=self.admin_site.name)

    # -- columns ------------------------------------------------------------------------------------------

    @admin.display(description=_("exception"))
    def kind(self, obj: ShownFailure) -> str:
        return format_html('<span class="dbqueue-place">{}</span>', obj.shown_exception)

    @admin.display(description=_("place"), empty_value=display.NOTHING)
    def place_shown(self, obj: ShownFailure) -> str | None:
        return format_html('<span class="dbqueue-place">{}</span>', obj.shown_place) if obj.shown_place else None

    @admin.display(description=_("failures"))
    def count(self, obj: ShownFailure) -> str:
        return str(obj.group.count)

    @admin.display(description=_("dead now"))
    def dead(self, obj: ShownFailure) -> str:
        return str(obj.group.dead)

    @admin.display(description=_("first seen"))
    def first_seen(self, obj: ShownFailure) -> str:
        return _moment(obj.first_at)

    @admin.display(description=_("last seen"))
    def last_seen(self, obj: ShownFailure) -> str:
        moment = to_utc(obj.group.last_at, connections[self.alias])
        return display.NOTHING if moment is None else _moment(moment)

    @admin.display(description=_("example"))
    def example(self, obj: ShownFailure) -> str:
        return self._link(obj.shown_messages[0]) if obj.shown_messages else display.NOTHING

    @admin.display(description=_("messages that last failed this way"))
    def examples(self, obj: ShownFailure) -> str:
        if not obj.shown_messages:
            return display.NOTHING
        return format_html_join(", ", "{}", ((self._link(pk),) for pk in obj.shown_messages))

    def _link(self, pk: int) -> str:
        url = reverse("admin:django_dbqueue_message_change", args=[pk], current_app=self.admin_site.name)
        return format_html('<a href="{}">#{}</a>', url, pk)


def _names_consumer(row: Failure) -> bool:
    """Return whether the place is the consumer of the row's queue, as this process knows it, not free text."""
    return bool(has_consumer(row.queue)) and registered()[row.queue].name == row.place


def _moment(moment: datetime) -> str:
    return display_for_value(moment, display.NOTHING)


def _shown(row: Failure, name: str, *, sees_payload: bool) -> str:
    """Return class or place; if words of an error stand in for it, as this user may see them."""
    text = str(getattr(row, name))
    if not text or names_class(row.exception, row.place, name) or (name == "place" and _names_consumer(row)):
        return text
    return str(error_text(text, of=None, sees_payload=sees_payload))
