"""The steps of a message in its life, and the page on which an operator makes it forget one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin.models import CHANGE
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_dbqueue.admin import logbook
from django_dbqueue.admin.lifeline import LifeStep
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.insight.cursors import cursor_text
from django_dbqueue.models import Message, Step
from django_dbqueue.statements.steps_sql import CURSOR, EVENT, SLEEP, STEP, TIMED_OUT, WAIT
from django_dbqueue.states.table import Stage
from django_dbqueue.typed_values import MAX_ID

SHOWN = 200
"""Steps of one message that are shown: the latest."""


def steps_of(
    model_admin: ReadOnlyAdmin, request: HttpRequest, message: Message, *, sees_payload: bool
) -> list[LifeStep]:
    """Return the steps of a message for its life, each with its time and its delivery.

    Where one in progress will continue is shown to those who may see payloads, since it may quote them.
    """
    rows = Step.objects.using(model_admin.alias).filter(message_id=message.pk).order_by("-at", "-name")[:SHOWN]
    pages = Forgetting(model_admin)
    may = pages.may(request) and message.stage is not Stage.FINISHED
    return [
        _line(
            step,
            pages.url(message.pk, step.name) if may else "",
            cursor_text(message.queue, step) if sees_payload and step.kind == CURSOR else "",
        )
        for step in rows
    ]


def _line(step: Step, forget_url: str, cursor: str = "") -> LifeStep:
    kind, symbol, label = {
        STEP: ("ready", "◆", pgettext("life of a message", "Step done")),
        CURSOR: ("delayed", "◈", pgettext("life of a message", "Step in progress")),
        SLEEP: ("delayed", "◷", pgettext("life of a message", "Sleep")),
        WAIT: ("delayed", "◷", pgettext("life of a message", "Wait for an event")),
        EVENT: ("ready", "◆", pgettext("life of a message", "Event received")),
        TIMED_OUT: ("stuck", "◇", pgettext("life of a message", "Wait timed out")),
    }.get(step.kind, ("quiet", "•", step.kind))
    parts = [step.name, _("delivery %(number)d") % {"number": step.read_count}]
    if step.until is not None and step.kind in (SLEEP, WAIT):
        parts.insert(1, _("until %(moment)s") % {"moment": f"{step.until:%Y-%m-%d %H:%M:%S} UTC"})
    if cursor:
        parts.insert(1, _("cursor %(cursor)s") % {"cursor": cursor})
    return LifeStep(step.at, kind, symbol, label, detail=", ".join(parts), forget_url=forget_url, comes_last=1)


class Forgetting:
    """The views of the messages' ModelAdmin."""

    def __init__(self, model_admin: ReadOnlyAdmin) -> None:
        self.admin = model_admin
        self.site = model_admin.admin_site
        self.opts = model_admin.opts

    def urls(self) -> list[URLPattern]:
        """Return the one address, which is asked and confirmed."""
        view = self.site.admin_view(self.page)
        return [path("<int:pk>/forget-step/", view, name=f"{self.opts.app_label}_message_forget_step")]

    def may(self, request: HttpRequest) -> bool:
        """Return whether this user may make messages forget steps."""
        return bool(self.admin.has_view_permission(request) and request.user.has_perm("django_dbqueue.forget_step"))

    def url(self, pk: int, name: str) -> str:
        """Return the address of the page for one step."""
        return f"{self._url('forget_step', pk)}?{urlencode({'name': name})}"

    def page(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the page; a POST forgets the step that it showed, if it is the same still."""
        if request.method not in {"GET", "HEAD", "POST"}:
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        if not self.may(request):
            raise PermissionDenied
        message = self.admin.get_queryset(request).filter(pk=pk).first() if pk <= MAX_ID else None
        if message is None:
            raise Http404
        if request.method == "POST":
            return self._forget(request, message)
        step = self._step(pk, request.GET.get("name", ""))
        context: dict[str, Any] = {
            **self.site.each_context(request),
            "opts": self.opts,
            "title": _("Forget a step"),
            "label": _("Forget this step"),
            "message": message,
            "line": None if step is None else _line(step, ""),
            "name": "" if step is None else step.name,
            "pin": "" if step is None else _pin(step),
            "media": self.admin.media,
            "action_url": self._url("forget_step", pk),
            "cancel_url": self._url("change", quote(pk)),
        }
        request.current_app = self.site.name
        return TemplateResponse(request, "admin/django_dbqueue/message/forget_step.html", context)

    def _forget(self, request: HttpRequest, message: Message) -> HttpResponse:
        name, user = request.POST.get("name", ""), request.user
        with transaction.atomic(using=self.admin.alias):
            step = self._step(message.pk, name)
            is_same = step is not None and _pin(step) == request.POST.get("pin")
            manager = Step.objects.db_manager(self.admin.alias)
            forgotten = is_same and manager.forget(message.pk, name, by=user.get_username())
            if forgotten:
                entry = f"Made it forget step {name}."
                logbook.note(user, [message], CHANGE, entry)
        if forgotten:
            messages.success(request, _("Step %(name)s is forgotten: it runs again.") % {"name": name})
        else:
            text = _("Step %(name)s changed in the meantime, or its message is done; nothing was forgotten.")
            messages.warning(request, text % {"name": name})
        return HttpResponseRedirect(self._url("change", quote(message.pk)))

    def _step(self, pk: int, name: str) -> Step | None:
        return Step.objects.using(self.admin.alias).filter(message_id=pk, name=name).first()

    def _url(self, view: str, *args: object) -> str:
        return reverse(f"admin:{self.opts.app_label}_message_{view}", args=args, current_app=self.site.name)


def _pin(step: Step) -> str:
    """Return what tells this step from one that ran again under its name."""
    return f"{step.token}:{step.at:%Y%m%d%H%M%S%f}"
