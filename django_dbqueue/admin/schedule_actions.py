"""Disable, enable and run a schedule now: a page that asks, whose POST does it and writes it to the admin's log."""

from __future__ import annotations

import secrets
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.models import CHANGE
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy

from django_dbqueue.admin import logbook
from django_dbqueue.admin.confirmation import first_use
from django_dbqueue.admin.forms import ReasonForm
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.admin.schedule_form import declared_plans
from django_dbqueue.exceptions import DBQueueError
from django_dbqueue.models import Schedule
from django_dbqueue.schedules.declarations import Plan
from django_dbqueue.sessions.django_session import session_of

PIN = "schedule"
LABELS: Final = {
    "run": pgettext_lazy("verb", "Run now"),
    "disable": pgettext_lazy("verb", "Disable"),
    "enable": pgettext_lazy("verb", "Enable"),
}
PERMISSIONS: Final = {"run": "run", "disable": "disable", "enable": "disable"}


class ActingAdmin(ReadOnlyAdmin):
    """Who may do what to schedules, and where."""

    def has_verb_permission(self, request: HttpRequest, verb: str) -> bool:
        return self._may(request, PERMISSIONS[verb])

    def _may(self, request: HttpRequest, *names: str) -> bool:
        """Whoever does something must also be allowed to look."""
        label = self.opts.app_label
        return bool(request.user.has_perms([f"{label}.{name}_schedule" for name in ("view", *names)]))

    def url(self, view: str, *args: object) -> str:
        """Return the address of one of the pages."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{view}"
        return reverse(name, args=args, current_app=self.admin_site.name)


class ScheduleActions:
    """The views of the schedules' ModelAdmin."""

    def __init__(self, model_admin: ActingAdmin) -> None:
        self.admin = model_admin
        self.site = model_admin.admin_site
        self.opts = model_admin.opts

    def refuse_others(self, request: HttpRequest, verb: str) -> None:
        """Raise PermissionDenied for those who may not do this."""
        if not self.admin.has_verb_permission(request, verb):
            raise PermissionDenied

    def handle(self, request: HttpRequest, verb: str, schedule: Any) -> HttpResponse:
        """Show the page; or do what it has sent, if the schedule is still as the page showed it."""
        if request.method not in {"GET", "HEAD", "POST"}:
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        if verb != "run" and schedule.is_disabled == (verb == "disable"):
            messages.warning(request, _("The schedule %(name)s is so already.") % {"name": schedule})
            return self._back(schedule)
        form = None
        if verb == "disable":
            form = ReasonForm(request.POST if request.method == "POST" else None)
        if request.method != "POST" or (form is not None and not form.is_valid()):
            return self._page(request, verb, schedule, form)
        if request.POST.get(PIN) != str(schedule.revision) or (verb == "run" and not first_use(request)):
            text = _("The schedule %(name)s changed in the meantime, or this page was sent already: left alone.")
            messages.warning(request, text % {"name": schedule})
            return self._back(schedule)
        try:
            self._apply(request, verb, schedule, "" if form is None else form.cleaned_data["reason"])
        except DBQueueError as error:
            messages.error(request, str(error))
        return self._back(schedule)

    def _apply(self, request: HttpRequest, verb: str, schedule: Any, reason: str) -> None:
        user: Any = request.user
        alias, name, by = self.admin.alias, schedule.pk, user.get_username()
        plan = None if schedule.is_added or verb != "run" else declared_plans().get(name)

        def apply() -> str:
            with session_of(alias).transaction():
                if verb == "run":
                    entry, text = self._run(name, by, plan)
                elif verb == "disable":
                    Schedule.objects.disable(name, reason=reason, by=by, using=alias)
                    entry, text = f"Disabled: {reason}", _("The schedule %(name)s is disabled.") % {"name": name}
                else:
                    Schedule.objects.enable(name, using=alias)
                    text = _("The schedule %(name)s is enabled, and continues from now.") % {"name": name}
                    entry = "Enabled."
                if entry:
                    logbook.note(user, [schedule], CHANGE, entry)
            return text

        messages.success(request, session_of(alias).outermost(apply))

    def _run(self, name: str, by: str, plan: Plan | None) -> tuple[str, str]:
        message = Schedule.objects.run_now(name, by=by, plan=plan, using=self.admin.alias)
        values = {"name": name, "id": message.pk}
        if message.outcome != "created":
            return "", _("Nothing was enqueued: #%(id)s is live, and has the key of the schedule %(name)s.") % values
        return f"Run now: #{message.pk}.", _("The schedule %(name)s has enqueued message #%(id)s.") % values

    def _page(self, request: HttpRequest, verb: str, schedule: Any, form: ReasonForm | None) -> HttpResponse:
        context = {
            **self.site.each_context(request),
            "opts": self.opts,
            "title": LABELS[verb],
            "label": LABELS[verb],
            "verb": verb,
            "schedule": schedule,
            "pin": schedule.revision,
            "nonce": secrets.token_hex(8),
            "form": form,
            "media": self.admin.media,
            "cancel_url": self.admin.url("change", quote(schedule.pk)),
        }
        request.current_app = self.site.name
        return TemplateResponse(request, "admin/django_dbqueue/schedule/confirmation.html", context)

    def _back(self, schedule: Any) -> HttpResponseRedirect:
        return HttpResponseRedirect(self.admin.url("change", quote(schedule.pk)))
