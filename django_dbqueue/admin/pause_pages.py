"""Pause and resume: a confirmation page that pins the state of each queue, and asks for the reason of a pause."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin.models import CHANGE
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy

from django_dbqueue.admin import display, logbook
from django_dbqueue.admin.forms import PauseForm
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.models import Queue

PIN = "queue"


def pin_of(queue: Queue) -> str:
    """Return the queue and when it was paused, if it is: what a stale page has wrong."""
    paused = f"{queue.paused_at:%Y%m%d%H%M%S%f}" if queue.is_paused and queue.paused_at else ""
    return f"{queue.name}/{int(queue.is_paused)}/{paused}"


class PauseAdmin(ReadOnlyAdmin):
    """What the pages of queues and of groups have in common: who may pause one may pause the other."""

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(f"{self.opts.app_label}.pause_queue"))


class Pausing:
    """The views of the queues' ModelAdmin."""

    LABELS: ClassVar = {"pause": pgettext_lazy("verb", "Pause"), "resume": pgettext_lazy("verb", "Resume")}

    def __init__(self, model_admin: PauseAdmin) -> None:
        self.admin = model_admin
        self.site = model_admin.admin_site
        self.opts = model_admin.opts

    def ask(
        self,
        request: HttpRequest,
        verb: str,
        queues: list[Queue],
        *,
        back: str = "",
        form: PauseForm | None = None,
    ) -> HttpResponse:
        """Show the page; it changes nothing."""
        self._refuse_others(request)
        pausing = verb == "pause"
        is_one = back == "detail"  # of many, those that are paused keep their ends and reasons
        can = [queue for queue in queues if queue.is_paused != pausing or (pausing and is_one)]
        if pausing and form is None:
            before = next((queue.pause_reason for queue in can if queue.is_paused), "")
            form = PauseForm(using=self.admin.alias, initial={"reason": before})
        context = {
            **self.site.each_context(request),
            "opts": self.opts,
            "title": self.LABELS[verb],
            "verb": verb,
            "label": self.LABELS[verb],
            "queues": [(queue, pin_of(queue)) for queue in can],
            "cannot": [queue for queue in queues if queue not in can],
            "form": form,
            "media": self.admin.media,
            "back": back,
            "action_url": self._url(f"{verb}_many"),
            "cancel_url": self._back_url(back, [queue.name for queue in queues]),
        }
        request.current_app = self.site.name
        return TemplateResponse(request, "admin/django_dbqueue/queue/confirmation.html", context)

    def apply(self, request: HttpRequest, verb: str) -> HttpResponse:
        """Pause or resume the queues that are still as the page showed them."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        self._refuse_others(request)
        pins = list(dict.fromkeys(request.POST.getlist(PIN)))
        names = [pin.partition("/")[0] for pin in pins]
        back = request.POST.get("back", "")
        form = PauseForm(request.POST, using=self.admin.alias) if verb == "pause" else None
        if form is not None and not form.is_valid():
            found = [self.admin.get_object(request, name) for name in names]
            unmoved = [queue for queue in found if queue is not None and pin_of(queue) in pins]
            return self.ask(request, verb, unmoved, back=back, form=form)
        answers = {} if form is None else form.cleaned_data
        for name, pin in zip(names, pins, strict=True):
            self._apply_one(request, verb, name, pin, answers)
        return HttpResponseRedirect(self._back_url(back, names))

    def _apply_one(self, request: HttpRequest, verb: str, name: str, pin: str, answers: dict[str, Any]) -> None:
        words = {"queue": name}
        with transaction.atomic(using=self.admin.alias):
            # The row is locked, if there is one, so that two pages can't both find it as pinned.
            row = Queue.objects.using(self.admin.alias).select_for_update().filter(pk=name).first()
            queue = row or self.admin.get_object(request, name)
            if queue is None or pin_of(queue) != pin:
                messages.warning(
                    request, _("Queue %(queue)s changed in the meantime and was left alone.") % {"queue": name}
                )
                return
            manager = Queue.objects.db_manager(self.admin.alias)
            if verb == "pause":
                try:
                    manager.pause(
                        name, by=request.user.get_username()[:150], reason=answers["reason"], **answers["end"]
                    )
                except InvalidMessage as error:  # the end has passed since the form was read
                    messages.warning(request, str(error))
                    return
                end = manager.get(pk=name).paused_until
                entry = f"Paused{f' until {display.utc(end)} UTC' if end else ''}: {answers['reason']}"
                text = _("Queue %(queue)s is paused %(end)s.") if end else _("Queue %(queue)s is paused.")
                words |= {"end": display.until(end)}
            else:
                manager.resume(name)
                entry, text = "Resumed.", _("Queue %(queue)s is open again.")
            user: Any = request.user
            logbook.note(user, [queue], CHANGE, entry)
        messages.success(request, text % words)

    def _refuse_others(self, request: HttpRequest) -> None:
        if not (self.admin.has_view_permission(request) and self.admin.has_pause_permission(request)):
            raise PermissionDenied

    def _url(self, view: str, *args: str) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{view}"
        return reverse(name, args=args, current_app=self.site.name)

    def _back_url(self, back: str, names: list[str]) -> str:
        if back == "detail" and len(names) == 1:
            return self._url("change", quote(names[0]))
        return self._url("changelist")
