"""The page between an action and its effect: it lists the messages, pins their state, and asks for a reason.

GET shows it for one message, a change list action for many. Only its POST changes anything, and checks the permission
again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.forms import Form
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
    QueryDict,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue.admin import logbook
from django_dbqueue.admin.bounded_lists import HEAVY, LIST_CAP
from django_dbqueue.admin.display import NOTHING, state_badge
from django_dbqueue.admin.forms import form_of
from django_dbqueue.admin.state_words import applies, words_for
from django_dbqueue.models import Message, StreamClaim
from django_dbqueue.operations.mover import move_all
from django_dbqueue.operations.outcome import MoveOutcome, sentence
from django_dbqueue.operations.seen import Seen
from django_dbqueue.operations.verbs import VERBS, Verb
from django_dbqueue.typed_values import MAX_ID

PIN = "message"
FILTERS = "_changelist_filters"
REPORTED = 10
"""Messages that are named one by one if they were left alone."""
_USED = "dbqueue_used_confirmations"
_REMEMBERED = 50


class Confirmation:
    """The views of one ModelAdmin's verbs."""

    def __init__(self, model_admin: Any) -> None:
        self.admin = model_admin
        self.site = model_admin.admin_site
        self.opts = model_admin.opts

    def urls(self) -> list[URLPattern]:
        """Return two for each verb: the page of one message, and the POST of any."""
        prefix = f"{self.opts.app_label}_{self.opts.model_name}"
        urls = []
        for verb in VERBS.values():
            ask, apply = partial(self.ask_one, verb=verb), partial(self.apply, verb=verb)
            word = verb.name
            urls += [
                path(f"<int:pk>/{word}/", self.site.admin_view(ask), name=f"{prefix}_{word}"),
                path(f"{word}/", self.site.admin_view(apply), name=f"{prefix}_{word}_many"),
            ]
        return urls

    def allowed(self, request: HttpRequest, verb: Verb) -> bool:
        """Return whether this user may do this."""
        may = getattr(self.admin, f"has_{verb.permission}_permission")
        return bool(self.admin.has_view_permission(request) and may(request))

    def ask_one(self, request: HttpRequest, pk: int, *, verb: Verb) -> HttpResponse:
        """Show the page for one message."""
        if request.method not in {"GET", "HEAD"}:
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.allowed(request, verb):
            raise PermissionDenied
        message = self.admin.get_queryset(request).filter(pk=pk).first() if pk <= MAX_ID else None
        if message is None:
            raise Http404
        filters = request.GET.get(FILTERS, "")
        return self.ask(request, verb, [message], filters=filters, back="detail")

    def ask(
        self,
        request: HttpRequest,
        verb: Verb,
        rows: Iterable[Any],
        *,
        filters: str = "",
        back: str = "",
        form: Form | None = None,
    ) -> HttpResponse:
        """Show the page for these messages."""
        if not self.allowed(request, verb):
            raise PermissionDenied
        rows = list(rows)
        StreamClaim.objects.using(self.admin.alias).join(rows)
        entries = [self._entry(verb, row) | {"error": self.admin.first_line(request, row) or NOTHING} for row in rows]
        can = [entry for entry in entries if entry["can"]]
        count = ngettext("%(n)d message", "%(n)d messages", len(can)) % {"n": len(can)}
        if form is None:
            form = form_of(verb, self.admin.alias)
        context = {
            **self.site.each_context(request),
            "opts": self.opts,
            "title": f"{verb.label}: {count}",
            "verb": verb,
            "entries": can,
            "cannot": [entry for entry in entries if not entry["can"]],
            "form": form,
            "media": self.admin.media,
            "filters": filters,
            "back": back,
            "nonce": secrets.token_hex(8) if verb.once else "",
            "action_url": self._url(f"{verb.name}_many"),
            "cancel_url": self._back_url(filters, back, [entry["pin"].id for entry in entries]),
        }
        request.current_app = self.site.name
        return TemplateResponse(request, "admin/django_dbqueue/message/confirmation.html", context)

    def apply(self, request: HttpRequest, *, verb: Verb) -> HttpResponse:
        """Apply the verb to what is still as the page showed it."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.allowed(request, verb):
            raise PermissionDenied
        fields = request.POST.getlist(PIN)[:LIST_CAP]
        pins = [pin for pin in map(Seen.parse, fields) if pin is not None]
        filters, back = request.POST.get(FILTERS, ""), request.POST.get("back", "")
        form = form_of(verb, self.admin.alias, request.POST)
        if form is not None and not form.is_valid():
            found = self.admin.get_queryset(request).defer(*HEAVY).in_bulk([pin.id for pin in pins])
            unmoved = [found[pin.id] for pin in pins if pin.id in found and Seen.of(found[pin.id]) == pin]
            return self.ask(request, verb, unmoved, filters=filters, back=back, form=form)
        answer = HttpResponseRedirect(self._back_url(filters, back, [pin.id for pin in pins]))
        if verb.once and not first_use(request):
            messages.warning(request, _("This page was already confirmed; nothing was done twice."))
            return answer
        answers = {"reason": "", "queue": "", **({} if form is None else form.cleaned_data)}
        self._move(request, verb, pins, reason=answers["reason"], queue=answers["queue"])
        return answer

    def _move(self, request: HttpRequest, verb: Verb, pins: list[Seen], *, reason: str, queue: str) -> None:
        """Move them and report it; moves and their log are one commit, if both tables are in one database."""
        user: Any = request.user
        names = {pin.id: Message(pk=pin.id, queue=pin.queue or "") for pin in pins}

        def note(outcome: MoveOutcome) -> None:
            if outcome.moved:
                rows = [names[message_id] for message_id in outcome.moved]
                logbook.note(user, rows, CHANGE, verb.done % {"reason": reason, "queue": queue})

        order = verb.ordered(user.get_username(), reason, queue)
        ordered = sorted(pins, key=lambda pin: pin.id)  # locks are always taken in the same order
        outcomes = list(move_all(Message, self.admin.session, order, ordered, also=note))
        moved = sum(len(outcome.moved) for outcome in outcomes)
        left = [sentence(names[each], outcome.left[each]) for outcome in outcomes for each in sorted(outcome.left)]
        _report(request, verb, moved, left)

    def _entry(self, verb: Verb, row: Any) -> dict[str, Any]:
        state = words_for(row, row.db_now)
        return {
            "row": row,
            "pin": Seen.of(row),
            "badge": state_badge(state),
            "can": applies(verb, row, row.db_now),
            "url": reverse(self._name("change"), args=[quote(row.pk)], current_app=self.site.name),
        }

    def _name(self, view: str) -> str:
        return f"admin:{self.opts.app_label}_{self.opts.model_name}_{view}"

    def _url(self, view: str) -> str:
        return reverse(self._name(view), current_app=self.site.name)

    def _back_url(self, filters: str, back: str, ids: list[int]) -> str:
        if back == "detail" and len(ids) == 1:
            url = reverse(self._name("change"), args=[quote(ids[0])], current_app=self.site.name)
            return f"{url}?{_query({FILTERS: filters})}" if filters else url
        url = self._url("changelist")
        return f"{url}?{QueryDict(filters).urlencode()}" if filters else url


def _query(values: dict[str, str]) -> str:
    query = QueryDict(mutable=True)
    query.update(values)
    return query.urlencode()


def first_use(request: HttpRequest) -> bool:
    """Return whether this confirmation page is sent for the first time, not by Back or a second click."""
    nonce = request.POST.get("nonce", "")
    used = request.session.get(_USED, [])
    if not nonce or nonce in used:
        return False
    request.session[_USED] = [*used, nonce][-_REMEMBERED:]
    return True


def _report(request: HttpRequest, verb: Verb, moved: int, left: list[str]) -> None:
    """Say what became of the messages."""
    if moved:
        text = ngettext("%(verb)s: %(n)d message.", "%(verb)s: %(n)d messages.", moved)
        messages.success(request, text % {"verb": verb.label, "n": moved})
    for text in left[:REPORTED]:
        messages.warning(request, text)
    more = len(left) - REPORTED
    if more > 0:
        text = ngettext("%(n)d more was left alone.", "%(n)d more were left alone.", more)
        messages.warning(request, text % {"n": more})
    if not moved and not left:
        messages.warning(request, _("No message was selected; nothing was changed."))
