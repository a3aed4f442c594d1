"""Groups: which have something now, the order of what waits in one, and ways to its pause, its limit and its rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote, unquote
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_dbqueue import conf
from django_dbqueue.admin import display
from django_dbqueue.admin.bounded_lists import CELL_CAP, LIST_CAP, walk_of
from django_dbqueue.admin.group_actions import OWN, GroupActions
from django_dbqueue.admin.group_list import GroupChangeList, id_of, shown_groups
from django_dbqueue.admin.list_filters import QueueFilter
from django_dbqueue.admin.pause_pages import PauseAdmin
from django_dbqueue.admin.state_words import words_for
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.insight.groups import (
    first_in_line,
    group_at,
    group_of,
    holders,
    overview_of,
    overviews,
)
from django_dbqueue.models import Group, Message, StreamClaim
from django_dbqueue.models.fields import clock
from django_dbqueue.states.counts import grouped
from django_dbqueue.typed_values import MAX_ID, typed_whole

if TYPE_CHECKING:
    from django_dbqueue.admin.group_list import ShownGroup

IN_LINE: Final = 100
"""Waiting messages that a group's page lists."""
OUT: Final = 25
"""Messages that may run, or do, that it lists."""


@admin.action(permissions=["pause"], description=gettext_lazy("Pause selected groups"))
def pause(model_admin: GroupAdmin, request: HttpRequest, _queryset: QuerySet[Group]) -> HttpResponse:
    return model_admin.ask_many(request, "pause")


@admin.action(permissions=["pause"], description=gettext_lazy("Resume selected groups"))
def resume(model_admin: GroupAdmin, request: HttpRequest, _queryset: QuerySet[Group]) -> HttpResponse:
    return model_admin.ask_many(request, "resume")


@admin.action(permissions=["limit"], description=gettext_lazy("Change the limit of selected groups"))
def limit(model_admin: GroupAdmin, request: HttpRequest, _queryset: QuerySet[Group]) -> HttpResponse:
    return model_admin.ask_many(request, "limit")


@admin.action(permissions=["limit"], description=gettext_lazy("Change the rate of selected groups"))
def rate(model_admin: GroupAdmin, request: HttpRequest, _queryset: QuerySet[Group]) -> HttpResponse:
    return model_admin.ask_many(request, "rate")


@admin.register(Group)
class GroupAdmin(PauseAdmin):
    """Groups, addressed by queue and name, so that one without a row has a page too."""

    list_display = ("name", "queue", "state_badge", "waiting", "out", "starts", "oldest", "pause_reason")
    list_display_links = ("name",)
    list_filter = (QueueFilter,)
    list_per_page = 25
    search_fields = ("name",)  # shows the box; GroupChangeList does the search
    search_help_text = gettext_lazy("The whole name of a group.")
    actions: Sequence[Any] = [pause, resume, limit, rate]

    def has_limit_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(f"{self.opts.app_label}.change_group_limit"))

    # -- list ---------------------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[GroupChangeList]:  # noqa: ARG002
        return GroupChangeList

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist: Any = super().get_changelist_instance(request)
        return changelist

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"cap": LIST_CAP, **(extra_context or {})})

    # -- one group ----------------------------------------------------------------------------------------

    def get_object(
        self,
        request: HttpRequest,
        object_id: str,
        from_field: str | None = None,  # noqa: ARG002
    ) -> ShownGroup | None:
        """Return the group of this queue and name, if the queue has messages or the group a row; or that of a lane."""
        row = self._named(request, object_id)
        if row is None:
            return None
        now = clock(self.alias)
        [shown] = shown_groups([overview_of(self.session, row, cap=CELL_CAP)], now)
        return shown  # type: ignore[no-any-return]

    def _named(self, request: HttpRequest, object_id: str) -> Group | None:
        queue, slash, name = object_id.partition("/")
        if not slash:  # as a list's boxes name it, and rows that were written by SQL
            lane = typed_whole(object_id, 0, MAX_ID)
            return None if lane is None else group_at(self.session, lane)
        try:
            row = group_of(self.session, queue, name)
        except InvalidMessage:
            return None
        return None if row._state.adding and queue not in walk_of(request, self.alias).queues else row

    def get_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:  # noqa: ARG002
        pause = ["paused_at", "paused_by", "pause_reason"] if obj is not None and obj.is_paused else []
        return ["name", "queue", "state_badge", *pause, "in_force", "rate_in_force", "waiting", "out", "oldest"]

    def get_urls(self) -> list[URLPattern]:
        view, prefix = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        urls = []
        for verb in GroupActions.LABELS:
            urls += [
                path(f"{verb}/", view(self._apply(verb)), name=f"{prefix}_{verb}_many"),
                path(f"<path:object_id>/{verb}/", view(self._ask_one(verb)), name=f"{prefix}_{verb}"),
            ]
        return [*urls, *super().get_urls()]

    def ask_many(self, request: HttpRequest, verb: str) -> HttpResponse:
        """Show the confirmation page for the groups that were ticked, or for all that are listed."""
        if request.POST.get("select_across") == "1":
            found = self.get_changelist_instance(request).found[:LIST_CAP]
            groups = [each.group for each in overviews(self.session, found, cap=1)]
        else:
            ids = list(dict.fromkeys(request.POST.getlist(ACTION_CHECKBOX_NAME)))[:LIST_CAP]
            groups = [group for each in ids if (group := self.get_object(request, each)) is not None]
        return GroupActions(self).ask(request, verb, groups)

    def _ask_one(self, verb: str) -> Callable[..., HttpResponse]:
        def ask_one(request: HttpRequest, object_id: str) -> HttpResponse:
            actions = GroupActions(self)
            actions.refuse_others(request, verb)
            group = self.get_object(request, unquote(object_id))
            if group is None:
                raise Http404
            return actions.ask(request, verb, [group], back="detail")

        return ask_one

    def _apply(self, verb: str) -> Callable[[HttpRequest], HttpResponse]:
        def apply(request: HttpRequest) -> HttpResponse:
            return GroupActions(self).apply(request, verb)

        return apply

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        group: ShownGroup = context["original"]
        verbs = ["resume" if group.is_paused else "pause"] if self.has_pause_permission(request) else []
        verbs += [*OWN] if self.has_limit_permission(request) else []
        prefix, site = f"admin:{self.opts.app_label}_{self.opts.model_name}", self.admin_site.name
        context["verbs"] = [
            {
                "name": verb,
                "label": GroupActions.LABELS[verb],
                "url": reverse(f"{prefix}_{verb}", args=[quote(id_of(group))], current_app=site),
            }
            for verb in verbs
        ]
        if request.user.has_perm(f"{self.opts.app_label}.view_message"):
            context |= self._order(group)
        return super().render_change_form(request, context, *args, **kwargs)

    def _order(self, group: ShownGroup) -> dict[str, object]:
        """Return who may run, and who waits, in the order in which they will."""
        session = self.session
        out, waiting = holders(session, group.lane, OUT), first_in_line(session, group.lane, IN_LINE)
        StreamClaim.objects.using(self.alias).join(out)
        return {
            "order": [self._place(message, group.db_now) for message in (*out, *waiting)],
            "is_cut": group.seen.waiting.more or group.seen.out > len(out),
            "listed": {"out": grouped(OUT), "waiting": grouped(IN_LINE)},
        }

    def _place(self, message: Message, now: datetime) -> dict[str, object]:
        state = words_for(message, now)
        return {
            "message": message,
            "url": reverse("admin:django_dbqueue_message_change", args=[message.pk], current_app=self.admin_site.name),
            "badge": display.state_badge(state),
            "when": display.what_next(message, state, now),
            "sent": display.ago(now - message.created_at),
        }

    # -- columns ------------------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("state"))
    def state_badge(self, obj: ShownGroup) -> str:
        if obj.is_paused:
            return display.badge("paused", "❚❚", _("paused"))
        if obj.seen.is_held:
            return display.badge("dead", "✕", _("held by #%(id)s") % {"id": obj.seen.held_by})
        return display.badge("open", "▶", _("open"))

    @admin.display(description=gettext_lazy("waiting"))
    def waiting(self, obj: ShownGroup) -> str:
        return str(obj.seen.waiting)

    @admin.display(description=gettext_lazy("out"))
    def out(self, obj: ShownGroup) -> str:
        return _("%(out)s of %(limit)s") % {"out": obj.seen.out, "limit": grouped(obj.seen.limit)}

    @admin.display(description=gettext_lazy("rate"))
    def starts(self, obj: ShownGroup) -> str:
        return obj.seen.rate or display.NOTHING

    @admin.display(description=gettext_lazy("oldest"))
    def oldest(self, obj: ShownGroup) -> str:
        return display.NOTHING if obj.seen.oldest is None else display.span(obj.db_now - obj.seen.oldest)

    @admin.display(description=gettext_lazy("limit"))
    def in_force(self, obj: ShownGroup) -> str:
        if obj.width is None:
            return _("%(limit)s, as for its queue") % {"limit": grouped(obj.seen.limit)}
        usual = conf.queue_options(obj.queue).group_limit
        return _("%(limit)s of its own; for its queue, %(usual)s") % {
            "limit": grouped(obj.width),
            "usual": grouped(usual),
        }

    @admin.display(description=gettext_lazy("rate"))
    def rate_in_force(self, obj: ShownGroup) -> str:
        usual = conf.queue_options(obj.queue).group_rate
        if obj.rate is None:
            return display.NOTHING if usual is None else _("%(rate)s, as for its queue") % {"rate": usual}
        if usual is None:
            return _("%(rate)s of its own; its queue has none") % {"rate": obj.rate}
        return _("%(rate)s of its own; for its queue, %(usual)s") % {"rate": obj.rate, "usual": usual}
