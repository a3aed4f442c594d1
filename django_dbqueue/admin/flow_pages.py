"""Flows: how far each is, by queue and state, and the way to its dead messages and to those that wait for them."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_dbqueue.admin import display
from django_dbqueue.admin.bounded_lists import LIST_CAP, BoundedChangeList
from django_dbqueue.admin.cancel_pages import Cancelling
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.flows.flow_progress import SHOWN, Progress
from django_dbqueue.models import Flow
from django_dbqueue.states.counts import grouped

NAMED: Final = 100
"""Stages that a flow's page lists."""


class FlowChangeList(BoundedChangeList):
    """The newest flows, or those of a name."""

    heavy = ()

    def find_ids(self, _request: HttpRequest) -> list[int]:
        rows = Flow.objects.using(self.root_queryset.db).order_by("-pk")
        newest = rows.values_list("pk", "name")[: LIST_CAP + 1]
        name = self.query.strip().casefold()
        return [pk for pk, own in newest if name in own.casefold()]


@admin.register(Flow)
class FlowAdmin(ReadOnlyAdmin):
    """The newest flows first."""

    list_display = ("number", "name", "bar", "left", "dead", "created_at")
    list_display_links = ("number", "name")
    list_per_page = 25
    search_fields = ("name",)  # shows the box; FlowChangeList does the search
    search_help_text = gettext_lazy("A part of the name, among the newest flows.")
    change_form_template = "admin/django_dbqueue/flow/change_form.html"

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[FlowChangeList]:  # noqa: ARG002
        return FlowChangeList

    def get_fields(self, request: HttpRequest, obj: Flow | None = None) -> Any:  # noqa: ARG002
        return ["name", "created_at", "bar", "left", "dead"]

    def get_urls(self) -> list[URLPattern]:
        return [*Cancelling(self).urls(), *super().get_urls()]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        progress = _progress(context["original"])
        context["stages"] = [
            {
                "queue": stage.queue,
                "state": stage.state,
                "badge": display.state_badge(WORDS[stage.state]),
                "messages": grouped(stage.messages),
                "first": stage.first,
                "url": reverse("admin:django_dbqueue_message_change", args=[quote(stage.first)]),
            }
            for stage in progress.stages[:NAMED]
        ]
        context["verbs"] = Cancelling(self).offers(request, context["original"], progress)
        context["may_see_messages"] = request.user.has_perm("django_dbqueue.view_message")
        return super().render_change_form(request, context, *args, **kwargs)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).order_by("-pk")

    @admin.display(description=gettext_lazy("flow"))
    def number(self, flow: Flow) -> str:
        return f"#{flow.pk}"

    @admin.display(description=gettext_lazy("ended"))
    def bar(self, flow: Flow) -> SafeString:
        seen = _progress(flow)
        text = _("%(finished)s of %(total)s") % {"finished": grouped(seen.finished), "total": grouped(seen.counted)}
        if seen.counted < seen.total:
            text = _("%(said)s, the first of %(total)s") % {"said": text, "total": grouped(seen.total)}
        return format_html(
            '<progress value="{}" max="{}" aria-label="{}"></progress> {}',
            str(seen.finished), str(max(1, seen.counted)), text, text,
        )  # fmt: skip

    @admin.display(description=gettext_lazy("left"))
    def left(self, flow: Flow) -> str:
        return grouped(_progress(flow).left)

    @admin.display(description=gettext_lazy("dead"))
    def dead(self, flow: Flow) -> str:
        return grouped(_progress(flow).dead)


def _progress(flow: Flow) -> Progress:
    """Return how far a flow is, counted once for each object."""
    found: Progress | None = flow.__dict__.get("_dbqueue_progress")
    if found is None:
        found = flow.__dict__["_dbqueue_progress"] = flow.progress(most=SHOWN)
    return found
