"""Failures, grouped by the class of the exception and the place that raised it; requeue or drop all of a group."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_dbqueue.admin import display
from django_dbqueue.admin.bounded_lists import LIST_CAP, BoundedChangeList
from django_dbqueue.admin.bulk_orders import Ordering
from django_dbqueue.admin.failure_texts import Texts, texts_of
from django_dbqueue.admin.list_filters import QueueFilter
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.admin.task_names import tasks_of
from django_dbqueue.consumers.registry import has_consumer, registered
from django_dbqueue.insight import failure_groups
from django_dbqueue.models import BulkOperation, Failure, Message
from django_dbqueue.models.fields import clock
from django_dbqueue.operations import bulk
from django_dbqueue.operations.verbs import VERBS, Verb
from django_dbqueue.redaction.policy import error_text
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.counts import grouped

FOR_GROUPS = ("requeue", "drop")
"""What can be done to all dead messages of a group."""

if TYPE_CHECKING:

    class ShownFailure(Failure):
        """A group, with the summary of its events and what the user may see and do."""

        group: failure_groups.FailureGroup | None
        texts: Texts
        task: str
        shown_messages: list[int]
        sees_messages: bool
        sees_payload: bool
        may_requeue: bool
        db_now: datetime


class FailureChangeList(BoundedChangeList):
    """The most recently seen first, of one queue or of all."""

    heavy = ()

    def find_ids(self, _request: HttpRequest) -> list[int]:
        chosen = {spec.parameter_name: spec.value() for spec in self.filter_specs}  # type: ignore[attr-defined]
        return failure_groups.newest_first(session_of(self.root_queryset.db), chosen.get("queue"), LIST_CAP + 1)


@admin.register(Failure)
class FailureAdmin(ReadOnlyAdmin):
    """Failure groups, counted by their newest events."""

    list_display = ("kind", "dead", "count", "seen", "handler")
    list_display_links = None
    list_filter = (QueueFilter,)
    list_per_page = 25
    fields = (("dead", "count", "last_seen", "first_seen"), ("place_shown", "handler"), "error", "examples")

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[FailureChangeList]:  # noqa: ARG002
        return FailureChangeList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"cap": LIST_CAP, **(extra_context or {})})

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist: Any = super().get_changelist_instance(request)
        self._fill_rows(request, changelist.result_list)
        return changelist

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> ShownFailure | None:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            self._fill_rows(request, [row])
        return row

    def _fill_rows(self, request: HttpRequest, rows: list[ShownFailure]) -> None:
        """Give each row the summary of its events, and what this user may see of its messages and do to them."""
        sees_payload = request.user.has_perm("django_dbqueue.view_payload")
        sees_messages = request.user.has_perm("django_dbqueue.view_message")
        may_requeue = self._ordering().allowed(request, VERBS["requeue"], failure=True)
        found = failure_groups.groups(self.session, [row.pk for row in rows])
        ids = {pk for group in found.values() for pk in group.messages} if sees_messages else set()
        there = set(Message.objects.using(self.alias).filter(pk__in=ids).values_list("pk", flat=True))
        tasks = tasks_of(self.alias, [group.messages[0] for group in found.values()]) if sees_messages else {}
        events = {row.pk: (row, found[row.pk].event if row.pk in found else None) for row in rows}
        texts, now = texts_of(self.alias, events, sees_payload=sees_payload), clock(self.alias)
        for row in rows:
            row.group, row.texts, row.db_now = found.get(row.pk), texts[row.pk], now
            messages = () if row.group is None else row.group.messages
            row.shown_messages = [pk for pk in messages if pk in there]
            row.task = next((tasks[pk] for pk in messages[:1] if pk in tasks), "")
            row.sees_messages, row.sees_payload, row.may_requeue = sees_messages, sees_payload, may_requeue

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
        selection = bulk.Selection.now(self.session, state="dead", failure=pk)
        return ordering.ask(request, verb, selection, back=self._url("change", pk))

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        obj, ordering = context["original"], self._ordering()
        context["title"], context["subtitle"] = obj.texts.exception, obj.texts.detail or str(obj)
        context["verbs"] = [
            {"label": _("%(verb)s all") % {"verb": VERBS[name].label}, "name": name, "url": self._url(name, obj.pk)}
            for name in FOR_GROUPS
            if obj.group is not None
            and obj.group.may_have_dead
            and ordering.allowed(request, VERBS[name], failure=True)
        ]
        return super().render_change_form(request, context, *args, **kwargs)

    def _ordering(self) -> Ordering:
        return Ordering(self.admin_site.get_model_admin(BulkOperation))

    def _url(self, view: str, *args: int | str) -> str:
        name = f"admin:django_dbqueue_failure_{view}"
        return reverse(name, args=[quote(arg) for arg in args], current_app=self.admin_site.name)

    # -- columns ------------------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("failure"))
    def kind(self, obj: ShownFailure) -> str:
        """Return class, text and place; what is missing is empty, so that no text changes what elements there are."""
        link = format_html(
            '<a class="dbqueue-kind" href="{}">{}</a>',
            self._url("change", obj.pk),
            obj.texts.exception or display.NOTHING,
        )
        detail = format_html('<span class="dbqueue-error-detail">{}</span>', obj.texts.detail)
        return _lines(link, detail, _code(obj.texts.place))

    @admin.display(description=gettext_lazy("error"))
    def error(self, obj: ShownFailure) -> str:
        """Return the last error of the example, with its traceback, if it is dead by it; else what the event says."""
        message = Message.objects.using(self.alias).filter(pk__in=obj.shown_messages[:1]).first()
        if message is None or not message.is_dead or not message.error:
            return obj.texts.detail or display.NOTHING
        note = "" if obj.sees_payload else display.hidden_error()
        return display.block(error_text(message.error, of=message, sees_payload=obj.sees_payload), note)

    @admin.display(description=gettext_lazy("place"))
    def place_shown(self, obj: ShownFailure) -> str:
        return _code(obj.texts.place or display.NOTHING)

    @admin.display(description=gettext_lazy("dead now"))
    def dead(self, obj: ShownFailure) -> str:
        if obj.group is None:
            return display.NOTHING
        parts: list[str] = [str(obj.group.dead)]
        if obj.group.may_have_dead and obj.sees_messages:
            url = reverse("admin:django_dbqueue_message_changelist", current_app=self.admin_site.name)
            parts = [
                format_html(
                    '<a class="dbqueue-count dbqueue-count-dead" href="{}?failure={}">{}</a>',
                    url,
                    obj.pk,
                    obj.group.dead,
                )
            ]
        if obj.group.is_partial:
            parts.append(_note(_("of the newest %(n)s") % {"n": grouped(failure_groups.CAP)}))
        if obj.group.may_have_dead and obj.may_requeue:
            parts.append(format_html('<a href="{}">{}</a>', self._url("requeue", obj.pk), _("Requeue…")))
        return _lines(*parts)

    @admin.display(description=gettext_lazy("failures"))
    def count(self, obj: ShownFailure) -> str:
        if obj.group is None:
            return display.NOTHING
        length = obj.group.last_at - obj.group.since
        parts = [str(obj.group.count)]
        if length >= timedelta(seconds=1):
            parts.append(_note(_("in %(span)s") % {"span": display.span(length)}))
        return _lines(*parts)

    @admin.display(description=gettext_lazy("last seen"))
    def seen(self, obj: ShownFailure) -> str:
        """Return when it was last seen and, if it was seen before, when first."""
        first = display.ago(obj.db_now - obj.first_at)
        if obj.group is None:
            return first
        last = display.since(obj.group.last_at, obj.db_now)
        if obj.group.last_at - obj.first_at < timedelta(minutes=1):
            return last
        return format_html("{}{}", last, _lines(_note(_("first %(ago)s") % {"ago": first})))

    @admin.display(description=gettext_lazy("last seen"))
    def last_seen(self, obj: ShownFailure) -> str:
        return display.NOTHING if obj.group is None else display.since(obj.group.last_at, obj.db_now)

    @admin.display(description=gettext_lazy("first seen"))
    def first_seen(self, obj: ShownFailure) -> str:
        return display.since(obj.first_at, obj.db_now)

    @admin.display(description=gettext_lazy("queue"))
    def handler(self, obj: ShownFailure) -> str:
        """Return the queue, and what runs its messages: the task, or the consumer that this process knows."""
        consumer = registered()[obj.queue].name if has_consumer(obj.queue) else ""
        runs = obj.task or consumer
        return _lines(display.breakable(obj.queue), *([_code(runs)] if runs else []))

    @admin.display(description=gettext_lazy("messages that last failed this way"))
    def examples(self, obj: ShownFailure) -> str:
        if not obj.shown_messages:
            return display.NOTHING
        return format_html_join(", ", "{}", ((self._link(pk),) for pk in obj.shown_messages))

    def _link(self, pk: int) -> str:
        url = reverse("admin:django_dbqueue_message_change", args=[pk], current_app=self.admin_site.name)
        return format_html('<a href="{}">#{}</a>', url, pk)


def _lines(*parts: str) -> SafeString:
    return format_html_join("", '<span class="dbqueue-line">{}</span>', ((part,) for part in parts))


def _code(name: str) -> SafeString:
    return format_html('<code class="dbqueue-where">{}</code>', display.breakable(name))


def _note(text: str) -> SafeString:
    return format_html('<span class="dbqueue-count">{}</span>', text)
