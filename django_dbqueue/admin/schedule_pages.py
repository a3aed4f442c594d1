"""Schedules: what is due when, and the progress of each. Those that operators have added are changed here.

Those of the settings, consumers and tasks are fixed; an operator can disable them, and run them now.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from django_dbqueue.admin import display
from django_dbqueue.admin.schedule_actions import LABELS, ActingAdmin, ScheduleActions
from django_dbqueue.admin.schedule_form import MISSED_LABELS, ScheduleForm, payload_text
from django_dbqueue.exceptions import DBQueueError, InvalidSchedule
from django_dbqueue.models import Schedule
from django_dbqueue.models.fields import DbNow, UTCDateTimeField
from django_dbqueue.models.schedule import ABANDONED_AFTER
from django_dbqueue.schedules import cron

if TYPE_CHECKING:

    class ShownSchedule(Schedule):
        """A schedule, with the database's clock."""

        db_now: datetime
        sees_payload: bool


EDITABLE = ("queue", "create", "cron", "timezone", "missed", "payload", "key", "seen")
READ_ONLY = ("state_badge", "due_next", "last_due", "last_message_id", "declared")
DISABLED = ("disabled_at", "disabled_by", "disabled_reason")


@admin.register(Schedule)
class ScheduleAdmin(ActingAdmin):
    """By name; one that no worker runs any more is marked, and is no longer due."""

    form = ScheduleForm
    list_display = (
        "name", "state_badge", "due_next", "recurs", "queue", "last", "declared", "origin"
    )  # fmt: skip
    ordering = ("name",)
    actions = None

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(db_now=DbNow(output_field=UTCDateTimeField()))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        found: Any = super().get_object(request, object_id, from_field)
        if found is not None:
            found.sees_payload = self._sees_payload(request)
        return found

    # -- who may what -------------------------------------------------------------------------------------

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return self._may(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._may(request, "add")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "change") and (obj is None or obj.is_added)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "delete") and (obj is None or obj.is_added)

    def _sees_payload(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(f"{self.opts.app_label}.view_payload"))

    # -- the form -----------------------------------------------------------------------------------------

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("name", *EDITABLE)
        read_only = [*READ_ONLY, *(DISABLED if obj.is_disabled else ())]
        if self.has_change_permission(request, obj):
            return ["name", *EDITABLE, *read_only]
        added = ["missed_times", "shown_payload", "key"] if obj.is_added else []
        return ["name", "origin", "queue", "cron", "timezone", *added, *read_only]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ()
        fields = self.get_fields(request, obj)
        editable = EDITABLE if self.has_change_permission(request, obj) else ()
        return self.to_the_second([name for name in fields if name not in editable])

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        form.using, form.sees_payload = self.alias, self._sees_payload(request)  # type: ignore[attr-defined]
        return form

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: ARG002
        plan = form.plan
        options: dict[str, Any] = {
            "queue": plan.queue,
            "cron": plan.cron.expression,
            "timezone": plan.cron.timezone,
            "missed": plan.missed,
            "payload": plan.payload,
            "key": plan.key,
            "using": self.alias,
        }
        if change:
            Schedule.objects.change(plan.name, revision=form.cleaned_data["seen"], **options)
        else:
            Schedule.objects.add(plan.name, **options)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:  # noqa: ARG002
        Schedule.objects.remove(obj.pk, using=self.alias)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self._unless_overtaken(request, super().changeform_view, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self._unless_overtaken(request, super().delete_view, *args, **kwargs)

    def _unless_overtaken(self, request: HttpRequest, view: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Report what somebody else has done between the check of the form and its effect, which is rolled back."""
        try:
            return view(request, *args, **kwargs)
        except InvalidSchedule as error:
            messages.error(request, str(error))
            return HttpResponseRedirect(self.url("changelist"))

    # -- disable, enable, run now -------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view, prefix = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        verbs = [path(f"<path:object_id>/{verb}/", view(self._act(verb)), name=f"{prefix}_{verb}") for verb in LABELS]
        return [*verbs, *super().get_urls()]

    def _act(self, verb: str) -> Callable[..., HttpResponse]:
        def act(request: HttpRequest, object_id: str) -> HttpResponse:
            actions = ScheduleActions(self)
            actions.refuse_others(request, verb)
            schedule = self.get_object(request, unquote(object_id))
            if schedule is None:
                raise Http404
            return actions.handle(request, verb, schedule)

        return act

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        schedule = context.get("original")
        if schedule is not None:
            verbs = ["run", "enable" if schedule.is_disabled else "disable"]
            context["verbs"] = [
                {"name": verb, "label": LABELS[verb], "url": self.url(verb, quote(schedule.pk))}
                for verb in verbs
                if self.has_verb_permission(request, verb)
            ]
        return super().render_change_form(request, context, *args, **kwargs)

    # -- columns ------------------------------------------------------------------------------------------

    def _is_abandoned(self, obj: ShownSchedule) -> bool:
        return bool(obj.db_now - obj.seen_at > ABANDONED_AFTER)

    @admin.display(description=_("origin"))
    def origin(self, obj: Schedule) -> Any:
        return _("an operator") if obj.is_added else _("the code")

    @admin.display(description=_("state"))
    def state_badge(self, obj: Schedule) -> SafeString:
        if obj.is_disabled:
            return display.badge("paused", "❚❚", _("disabled"))
        return display.badge("open", "▶", _("enabled"))

    @admin.display(description=_("cron expression"))
    def recurs(self, obj: Schedule) -> SafeString:
        return format_html(
            '<code class="nowrap">{}</code><span class="dbqueue-line dbqueue-count">{}</span>', obj.cron, obj.timezone
        )

    @admin.display(description=_("last due"))
    def last(self, obj: Schedule) -> SafeString:
        """Return when it was due last, and the message that it enqueued then."""
        number = "" if obj.last_message_id is None else f"#{obj.last_message_id}"
        return format_html('{}<span class="dbqueue-line dbqueue-count">{}</span>', display.time(obj.last_due), number)

    @admin.display(description=_("next due"))
    def due_next(self, obj: ShownSchedule) -> str:
        return display.time(self.next_due(obj))

    def next_due(self, obj: ShownSchedule) -> datetime | None:
        """Return when it is due next; None if it is not, or nobody can tell."""
        if obj.is_disabled or self._is_abandoned(obj):
            return None
        try:
            return cron.read(obj.cron, obj.timezone).after(max(obj.last_due, obj.db_now))
        except DBQueueError:  # no library here to read it, or no valid expression: somebody wrote the row by SQL
            return None

    @admin.display(description=_("last seen by a worker"))
    def declared(self, obj: ShownSchedule) -> str:
        return display.ago(obj.db_now - obj.seen_at)

    @admin.display(description=_("missed due times"))
    def missed_times(self, obj: Schedule) -> Any:
        return dict(MISSED_LABELS).get(obj.missed, obj.missed)

    @admin.display(description=_("payload"))
    def shown_payload(self, obj: ShownSchedule) -> SafeString | str:
        text, hidden = payload_text(obj, sees=obj.sees_payload)
        return hidden or display.block(text)
