"""Pause, resume and limit groups: a page that pins how each stands, and asks for the reason, limit or rate."""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple

from django import forms
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

from django_dbqueue import conf
from django_dbqueue.admin import logbook
from django_dbqueue.admin.forms import LimitForm, RateForm, ReasonForm
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.insight.groups import group_of
from django_dbqueue.models import Group

PIN = "group"
OWN: Final = {"limit": "width", "rate": "rate"}
"""Verbs that set something of a group's own, each with its column."""


class GroupPin(NamedTuple):
    """A group, and how it stood when a page showed it: what a stale page has wrong."""

    queue: str
    name: str
    version: str

    @classmethod
    def of(cls, group: Group) -> GroupPin:
        """Return the pin of a group as it stands."""
        paused = f"{group.paused_at:%Y%m%d%H%M%S%f}" if group.is_paused and group.paused_at else ""
        rate = (group.rate or "").replace("/", "")  # a slash ends the version
        return cls(group.queue, group.name, f"{int(group.is_paused)}.{paused}.{group.width or ''}.{rate}")

    @classmethod
    def read(cls, text: str) -> GroupPin:
        """Return the pin that a form sent."""
        version, _slash, named = text.partition("/")
        queue, _slash, name = named.partition("/")
        return cls(queue, name, version)

    def __str__(self) -> str:
        return f"{self.version}/{self.queue}/{self.name}"


class GroupActions:
    """The views of the groups' ModelAdmin."""

    LABELS: ClassVar = {
        "pause": pgettext_lazy("verb", "Pause"),
        "resume": pgettext_lazy("verb", "Resume"),
        "limit": pgettext_lazy("verb", "Change the limit"),
        "rate": pgettext_lazy("verb", "Change the rate"),
    }
    FORMS: ClassVar[dict[str, type[forms.Form]]] = {"pause": ReasonForm, "limit": LimitForm, "rate": RateForm}

    def __init__(self, model_admin: Any) -> None:
        self.admin = model_admin
        self.site = model_admin.admin_site
        self.opts = model_admin.opts

    def ask(
        self, request: HttpRequest, verb: str, groups: list[Any], *, back: str = "", form: forms.Form | None = None
    ) -> HttpResponse:
        """Show the page; it changes nothing."""
        self.refuse_others(request, verb)
        can = [group for group in groups if verb in OWN or group.is_paused != (verb == "pause")]
        context = {
            **self.site.each_context(request),
            "opts": self.opts,
            "title": self.LABELS[verb],
            "verb": verb,
            "label": self.LABELS[verb],
            "groups": [(group, str(GroupPin.of(group)), conf.queue_options(group.queue)) for group in can],
            "cannot": [group for group in groups if group not in can],
            "form": form or self._form(verb, can),
            "media": self.admin.media,
            "back": back,
            "action_url": self._url(f"{verb}_many"),
            "cancel_url": self._back_url(back, [(group.queue, group.name) for group in groups]),
        }
        request.current_app = self.site.name
        return TemplateResponse(request, "admin/django_dbqueue/group/confirmation.html", context)

    def apply(self, request: HttpRequest, verb: str) -> HttpResponse:
        """Do it to the groups that are still as the page showed them."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        self.refuse_others(request, verb)
        pins = [GroupPin.read(text) for text in dict.fromkeys(request.POST.getlist(PIN))]
        back = request.POST.get("back", "")
        form = self.FORMS.get(verb, forms.Form)(request.POST)
        if not form.is_valid():
            there = [(pin, self._group_of(pin)) for pin in pins]
            unmoved = [group for pin, group in there if group is not None and GroupPin.of(group) == pin]
            return self.ask(request, verb, unmoved, back=back, form=form)
        for pin in pins:
            self._apply_one(request, verb, pin, form.cleaned_data)
        return HttpResponseRedirect(self._back_url(back, [(pin.queue, pin.name) for pin in pins]))

    def _apply_one(self, request: HttpRequest, verb: str, pin: GroupPin, answers: dict[str, Any]) -> None:
        names = {"group": pin.name, "queue": pin.queue}
        with transaction.atomic(using=self.admin.alias):
            group = self._group_of(pin)
            if group is not None and GroupPin.of(group) == pin:
                group = self._locked(group)
            if group is None or GroupPin.of(group) != pin:
                text = _("Group %(group)s of queue %(queue)s changed in the meantime and was left alone.")
                messages.warning(request, text % names)
                return
            entry, text = self._change(request, verb, pin, answers)
            self._log(request, group, entry)
        messages.success(request, text % {**answers, **names})

    def _change(self, request: HttpRequest, verb: str, pin: GroupPin, answers: dict[str, Any]) -> tuple[str, str]:
        """Do it; return what the admin's log keeps, and what the operator reads."""
        manager = Group.objects.db_manager(self.admin.alias)
        if verb == "pause":
            manager.pause(pin.queue, pin.name, by=request.user.get_username(), reason=answers["reason"])
            return f"Paused: {answers['reason']}", _("Group %(group)s of queue %(queue)s is paused.")
        if verb == "resume":
            manager.resume(pin.queue, pin.name)
            return "Resumed.", _("Group %(group)s of queue %(queue)s is open again.")
        if verb == "rate":
            manager.rate(pin.queue, pin.name, answers["rate"])
            if answers["rate"] is None:
                return "Rate removed.", _("Group %(group)s of queue %(queue)s has no rate of its own any more.")
            return f"Rate set to {answers['rate']}.", _("Group %(group)s of queue %(queue)s has the rate %(rate)s.")
        manager.limit(pin.queue, pin.name, answers["limit"])
        if answers["limit"] is None:
            return "Limit removed.", _("Group %(group)s of queue %(queue)s has the limit of its queue again.")
        return f"Limit set to {answers['limit']}.", _("Group %(group)s of queue %(queue)s has the limit %(limit)s.")

    def _log(self, request: HttpRequest, group: Group, entry: str) -> None:
        """Write to the admin's log, under the name that the group has in addresses."""
        logbook.note(request.user, [group], CHANGE, entry, object_id=f"{group.queue}/{group.name}")

    def _group_of(self, pin: GroupPin) -> Group | None:
        try:
            return group_of(self.admin.session, pin.queue, pin.name)
        except InvalidMessage:
            return None

    def _locked(self, group: Group) -> Group:
        """Lock the row of a group, which may have none yet, so that two pages can't both find it as pinned."""
        rows = Group.objects.using(self.admin.alias)
        if group._state.adding:
            rows.bulk_create([group], ignore_conflicts=True)
        return rows.select_for_update().get(pk=group.pk)

    def _form(self, verb: str, groups: list[Any]) -> forms.Form | None:
        if verb not in self.FORMS:
            return None
        own = {getattr(group, OWN[verb]) for group in groups} if verb in OWN else set()
        return self.FORMS[verb](initial={verb: own.pop()} if len(own) == 1 else None)

    def refuse_others(self, request: HttpRequest, verb: str) -> None:
        """Raise PermissionDenied for who may not do this."""
        allowed = self.admin.has_limit_permission if verb in OWN else self.admin.has_pause_permission
        if not (self.admin.has_view_permission(request) and allowed(request)):
            raise PermissionDenied

    def _url(self, view: str, *args: str) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{view}"
        return reverse(name, args=args, current_app=self.site.name)

    def _back_url(self, back: str, named: list[tuple[str, str]]) -> str:
        if back == "detail" and len(named) == 1:
            return self._url("change", quote("/".join(named[0])))
        return self._url("changelist")
