"""Messages: the list by state and queue, the page of one, and the buttons that lead to confirmation pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partialmethod
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_dbqueue.admin import display, message_story
from django_dbqueue.admin.bounded_lists import HEAVY, LIST_CAP, MessageChangeList
from django_dbqueue.admin.bulk_orders import Ordering
from django_dbqueue.admin.confirmation import Confirmation
from django_dbqueue.admin.contents import ContentAdmin
from django_dbqueue.admin.edit_page import Editing, why_not
from django_dbqueue.admin.list_filters import FailureFilter, QueueFilter, StateFilter, TaskFilter
from django_dbqueue.admin.state_words import WORDS, applies, words_for
from django_dbqueue.admin.step_pages import Forgetting
from django_dbqueue.admin.task_names import SEARCHED, last_part, tasks_of
from django_dbqueue.insight.failure_groups import SEARCHED as FAILURES_SEARCHED
from django_dbqueue.models import BulkOperation, Message, StreamClaim, Worker
from django_dbqueue.models.fields import DbNow, UTCDateTimeField
from django_dbqueue.operations import bulk
from django_dbqueue.operations.verbs import VERBS, Verb
from django_dbqueue.states.counts import grouped
from django_dbqueue.states.table import Stage, is_parked
from django_dbqueue.typed_values import MAX_ID, typed_whole

Action = Callable[["MessageAdmin", HttpRequest, QuerySet[Message]], HttpResponse | None]

if TYPE_CHECKING:

    class ShownMessage(Message):
        """A message as the list and its page have it."""

        db_now: datetime
        first_line: str
        task_name: str | None
        worker: Worker | None
        links_group: bool


def _action(verb: Verb) -> Action:
    @admin.action(permissions=[verb.permission], description=verb.many)
    def ask(model_admin: MessageAdmin, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return model_admin.ask_many(request, queryset, verb)

    ask.__name__ = verb.name.replace("-", "_")
    return ask


@admin.register(Message)
class MessageAdmin(ContentAdmin):
    """Messages, read-only; the verbs change them."""

    list_display = (
        "number",
        "state",
        "queue",
        "task_cut",
        "group_cut",
        "key_cut",
        "when",
        "owner",
        "reads",
        "last_error",
    )
    list_display_links = ("number",)
    list_filter = (StateFilter, QueueFilter, TaskFilter)
    list_per_page = 50
    search_fields = ("id",)  # shows the box; MessageChangeList does the search
    search_help_text = gettext_lazy("An id, or a whole key.")
    actions: Sequence[Action] = [_action(verb) for verb in VERBS.values()]

    # -- permissions --------------------------------------------------------------------------------------

    def _may(self, request: HttpRequest, codename: str) -> bool:
        return bool(request.user.has_perm(f"{self.opts.app_label}.{codename}"))

    # -- list ---------------------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = super().get_queryset(request)
        # Ages by the database's clock.
        return self.with_beginnings(request, rows.annotate(db_now=DbNow(output_field=UTCDateTimeField())))

    def get_list_filter(self, request: HttpRequest) -> Any:
        """Filter by nothing else where the dead messages of a failure are listed."""
        return (FailureFilter,) if FailureFilter.parameter_name in request.GET else self.list_filter

    def get_list_display(self, request: HttpRequest) -> Any:
        """Show the owner if there can be one, else the last error; both if states are mixed."""
        state = WORDS.get("dead" if FailureFilter.parameter_name in request.GET else request.GET.get("state", ""))
        if state is None and request.GET.get("q"):
            return self.list_display
        owned = state is None or state.name in Stage.CLAIMED.states
        return [column for column in self.list_display if column != ("last_error" if owned else "owner")]

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[MessageChangeList]:  # noqa: ARG002
        return MessageChangeList

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist: Any = super().get_changelist_instance(request)
        changelist.title = _("Messages found") if changelist.state is None else changelist.state.title
        self._join_owners(changelist.result_list)
        tasks = tasks_of(self.alias, [row.pk for row in changelist.result_list])
        # Tasks have no keys, and few messages of groups do, so that these columns seldom need the room of all.
        has_keys = any(row.key is not None for row in changelist.result_list)
        has_groups = any(row.group_name is not None for row in changelist.result_list)
        left_out = {*([] if tasks else ["task_cut"]), *([] if has_groups else ["group_cut"])}
        left_out |= {"key_cut"} if (tasks or has_groups) and not has_keys else set()
        changelist.list_display = [column for column in changelist.list_display if column not in left_out]
        for row in changelist.result_list:
            row.first_line = self.first_line(request, row)
            row.task_name = tasks.get(row.pk)
        return changelist

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        searched = {"looked_through": grouped(SEARCHED), "failures_searched": grouped(FAILURES_SEARCHED)}
        return super().changelist_view(request, {"cap": LIST_CAP, **searched, **(extra_context or {})})

    def ask_many(self, request: HttpRequest, queryset: QuerySet[Message], verb: Verb) -> HttpResponse | None:
        """Show the confirmation page for the ticked rows, whatever state they are in by now.

        If all of a state were selected, and not only those of the page, it leads to a bulk operation.
        """
        changelist = self.get_changelist_instance(request) if request.POST.get("select_across") == "1" else None
        if changelist is not None and changelist.covers_all:
            state, queue = changelist.state.name, changelist.queue
            back = reverse("admin:django_dbqueue_message_changelist", current_app=self.admin_site.name)
            back = f"{back}?{request.GET.urlencode()}"
            selection = bulk.Selection.now(self.session, state=state, queue=queue)
            return Ordering(self.admin_site.get_model_admin(BulkOperation)).ask(request, verb, selection, back=back)
        if changelist is None:
            chosen = [typed_whole(pk, 0, MAX_ID) for pk in request.POST.getlist(ACTION_CHECKBOX_NAME)]
            ticked = [pk for pk in chosen if pk is not None][:LIST_CAP]
            queryset = self.get_queryset(request).defer(*HEAVY).filter(pk__in=ticked)
        rows: list[Any] = list(queryset.order_by("pk")[:LIST_CAP])
        if not any(applies(verb, row, row.db_now) for row in rows):
            text = ngettext(
                "This can't be done to the message.", "This can't be done to any of the messages.", len(rows)
            )
            self.message_user(request, f"{verb.label}: {text}", messages.WARNING)
            return None
        return Confirmation(self).ask(request, verb, rows, filters=request.GET.urlencode())

    def _join_owners(self, rows: list[ShownMessage]) -> None:
        ids = {row.worker_id for row in rows if row.worker_id is not None}
        workers = Worker.objects.using(self.alias).in_bulk(ids)
        StreamClaim.objects.using(self.alias).join(rows)
        for row in rows:
            row.worker = workers.get(row.worker_id)

    # -- detail -------------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        own = [*Confirmation(self).urls(), *Editing(self).urls(), *Forgetting(self).urls()]
        return [*own, *super().get_urls()]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            self._join_owners([row])
            row.links_group = self._may(request, "view_group")
        return row

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        of_task = self.task_fields(request, obj)
        group = ["group_shown"] if obj is not None and obj.group_name is not None else []
        times = ["created_at", "due_at", "available_at", "claimed_at", "finished_at"]
        if obj is not None and is_parked(obj):
            times.remove("available_at")  # it waits for something other than time
        return [
            (None, {"fields": [("state", "when", "age"), ("queue", *group, "key", "priority")]}),
            (_("Last error"), {"fields": ["error_block"]}),
            (_("Payload"), {"fields": self.content_fields(request)}),
            *([(_("Task"), {"fields": of_task})] if of_task else []),
            (_("Delivery"), {"fields": [("owner", "reads", "crashes", "lease")]}),
            (_("Times"), {"fields": [tuple(self.to_the_second(times))]}),
        ]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        obj = context["original"]
        confirmation = Confirmation(self)
        context["verbs"] = [
            {"label": verb.label, "name": verb.name, "url": self.verb_url(request, verb, obj)}
            for verb in VERBS.values()
            if applies(verb, obj, obj.db_now) and confirmation.allowed(request, verb)
        ]
        if Editing(self).allowed(request) and not why_not(obj):
            context["verbs"].append({"label": _("Edit"), "name": "edit", "url": Editing(self).url(obj)})
        context["why"] = message_story.why_of(self, request, obj)
        context["life"] = message_story.life(self, request, obj, obj.pk)
        return super().render_change_form(request, context, *args, **kwargs)

    def verb_url(self, request: HttpRequest, verb: Verb, obj: ShownMessage) -> str:
        """Return the address of a verb's confirmation page for one message."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{verb.name}"
        url = reverse(name, args=[obj.pk], current_app=self.admin_site.name)
        filters = self.get_preserved_filters(request)
        return f"{url}?{filters}" if filters else url

    # -- columns ------------------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("message"))
    def number(self, obj: ShownMessage) -> str:
        return f"#{obj.pk}"

    @admin.display(description=gettext_lazy("state"))
    def state(self, obj: ShownMessage) -> str:
        return display.state_badge(words_for(obj, obj.db_now))

    @admin.display(description=gettext_lazy("task"))
    def task_cut(self, obj: ShownMessage) -> str:
        if obj.task_name is None:
            return display.NOTHING
        return format_html('<span class="dbqueue-task" title="{}">{}</span>', obj.task_name, last_part(obj.task_name))

    @admin.display(description=gettext_lazy("key"), empty_value=display.NOTHING)
    def key_cut(self, obj: ShownMessage) -> str | None:
        if obj.key is None or len(obj.key) <= 40:
            return obj.key  # type: ignore[no-any-return]
        return f"{obj.key[:39]}…"

    @admin.display(description=gettext_lazy("group"))
    def group_cut(self, obj: ShownMessage) -> str:
        name = obj.group_name
        if name is None:
            return display.NOTHING
        return format_html('<span class="dbqueue-group" title="{}">{}</span>', name, name)

    @admin.display(description=gettext_lazy("group"))
    def group_shown(self, obj: ShownMessage) -> str:
        if not obj.links_group:
            return str(obj.group_name)
        name, key = "admin:django_dbqueue_group_change", quote(f"{obj.queue}/{obj.group_name}")
        url = reverse(name, args=[key], current_app=self.admin_site.name)
        return format_html('<a href="{}">{}</a>', url, obj.group_name)

    @admin.display(description=gettext_lazy("when"))
    def when(self, obj: ShownMessage) -> str:
        text = display.what_next(obj, words_for(obj, obj.db_now), obj.db_now)
        return format_html('<span class="nowrap">{}</span>', text)

    @admin.display(description=gettext_lazy("age"))
    def age(self, obj: ShownMessage) -> str:
        return format_html('<span class="nowrap">{}</span>', display.span(obj.db_now - obj.created_at))

    @admin.display(description=gettext_lazy("owner"))
    def owner(self, obj: ShownMessage) -> str:
        if obj.stage is not Stage.CLAIMED:
            return display.NOTHING
        if obj.worker is not None:
            return format_html("{} {}", obj.worker, display.beat_badge(obj.worker, obj.db_now))
        if obj.stream_claim is not None:
            return _("stream %(name)s, claim %(number)s") % {
                "name": obj.stream_claim.stream,
                "number": obj.stream_claim.number,
            }
        session = _("session %(id)s") % {"id": obj.conn_id}
        if obj.worker_id is None:
            return session
        return format_html("{} {}", session, display.badge("silent", "✕", _("its worker is gone")))

    @admin.display(description=gettext_lazy("reads"))
    def reads(self, obj: ShownMessage) -> str:
        return display.reads(obj)

    @admin.display(description=gettext_lazy("last error"))
    def last_error(self, obj: ShownMessage) -> str:
        if not obj.first_line:
            return display.NOTHING
        return format_html('<span class="dbqueue-error">{}</span>', obj.first_line)

    @admin.display(description=gettext_lazy("lease"))
    def lease(self, obj: ShownMessage) -> str:
        if obj.lease_seconds is None:
            return display.NOTHING
        return _("%(seconds)s s") % {"seconds": f"{obj.lease_seconds:g}"}


for _verb in VERBS.values():  # Django asks by these names who may choose an action
    setattr(
        MessageAdmin, f"has_{_verb.permission}_permission", partialmethod(MessageAdmin._may, codename=_verb.codename)
    )
