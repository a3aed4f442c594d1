"""The history: what was archived, newest first, searchable by the message's id."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from django_dbqueue.admin import display, message_story
from django_dbqueue.admin.bounded_lists import LIST_CAP, BoundedChangeList
from django_dbqueue.admin.contents import ContentAdmin
from django_dbqueue.models import ArchivedMessage
from django_dbqueue.typed_values import MAX_ID, typed_whole

_OUTCOMES = {
    "done": ("done", "✓", _("done")),
    "dead": ("dead", "✕", _("dead")),
    "dropped": ("dropped", "–", _("dropped")),
}


class ArchiveChangeList(BoundedChangeList):
    """The newest ones by primary key, or those of one message by the index on it."""

    def find_ids(self, _request: HttpRequest) -> list[int]:
        rows = ArchivedMessage.objects.using(self.root_queryset.db)
        text = self.query.strip()
        if text:
            number = typed_whole(text, 0, MAX_ID)
            if number is None:
                return []
            rows = rows.filter(message_id=number)
        return list(rows.order_by("-id").values_list("id", flat=True)[: LIST_CAP + 1])


@admin.register(ArchivedMessage)
class ArchivedMessageAdmin(ContentAdmin):
    """Messages that left the hot table."""

    list_display = ("number", "how", "queue", "key", "reads", "created_at", "finished_at", "archived_at")
    list_display_links = ("number",)
    list_per_page = 50
    search_fields = ("message_id",)  # shows the box; ArchiveChangeList does the search
    search_help_text = _("The id that the message had.")

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[ArchiveChangeList]:  # noqa: ARG002
        return ArchiveChangeList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"cap": LIST_CAP, **(extra_context or {})})

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        context["life"] = message_story.life(self, request, context["original"], context["original"].message_id)
        return super().render_change_form(request, context, *args, **kwargs)

    def get_fields(self, request: HttpRequest, obj: ArchivedMessage | None = None) -> Any:
        first = [
            "number",
            "how",
            "queue",
            *(["group_name"] if obj is not None and obj.group_name is not None else []),
            "key",
            "priority",
            "reads",
            "crashes",
            "error_block",
        ]
        return [
            *first,
            *self.content_fields(request),
            *self.task_fields(request, obj),
            "created_at",
            "due_at",
            "claimed_at",
            "finished_at",
            "archived_at",
        ]

    @admin.display(description=_("message"))
    def number(self, obj: ArchivedMessage) -> str:
        return f"#{obj.message_id}"

    @admin.display(description=_("outcome"))
    def how(self, obj: ArchivedMessage) -> str:
        return display.badge(*_OUTCOMES.get(obj.outcome, ("dropped", "?", obj.outcome)))

    @admin.display(description=_("reads"))
    def reads(self, obj: ArchivedMessage) -> str:
        return display.reads(obj)
