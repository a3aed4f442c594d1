"""Ordering a bulk operation: the page that says what would be done to how many, and the POST that orders it.

The page carries a signed ticket: the verb, the selection as of the moment when it was made, and whose page it is. Later
messages don't match, a page orders only once, and it expires after an hour.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, Self

from django.contrib import messages
from django.contrib.admin.models import ADDITION
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, override

from django_dbqueue import conf
from django_dbqueue.admin import logbook
from django_dbqueue.admin.forms import form_of
from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.models import BulkOperation, Failure, Worker
from django_dbqueue.models.fields import clock
from django_dbqueue.models.worker_row import beating
from django_dbqueue.operations import bulk
from django_dbqueue.operations.verbs import VERBS, Verb
from django_dbqueue.sessions.django_session import DjangoSession, session_for
from django_dbqueue.states.counts import Capped

FRESH_FOR: Final = 3_600
"""Seconds during which a page may be confirmed."""
_SALT: Final = "django_dbqueue.bulk"


@dataclass(frozen=True, slots=True)
class SignedOrder:
    """What a page would order."""

    number: str
    user: str
    verb: str
    selection: str
    count: int
    back: str

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the ticket of a page; None if it isn't one of ours, or too old."""
        try:
            return cls(**signing.loads(text, salt=_SALT, max_age=FRESH_FOR))
        except signing.BadSignature:
            return None

    def __str__(self) -> str:
        return signing.dumps(asdict(self), salt=_SALT)


class Ordering:
    """The page and its POST, at the ModelAdmin of bulk operations."""

    def __init__(self, model_admin: Any) -> None:
        self.site = model_admin.admin_site
        self.media = model_admin.media
        self._model_admin = model_admin

    @property
    def session(self) -> DjangoSession:
        """The queue's; asked for each request, since the admin is built before settings are overridden."""
        return session_for(self._model_admin.model)

    def urls(self) -> list[URLPattern]:
        """One for each verb."""
        return [
            path(
                f"order/{name}/",
                self.site.admin_view(partial(self.apply, verb=verb)),
                name=f"django_dbqueue_bulkoperation_order_{name}",
            )
            for name, verb in VERBS.items()
        ]

    def allowed(self, request: HttpRequest, verb: Verb, *, failure: bool) -> bool:
        """Return whether this user may do this to all that match; to a failure group, if they may see failures."""
        codenames = ["view_message", verb.codename, *(["view_failure"] if failure else [])]
        return bool(request.user.has_perms([f"django_dbqueue.{codename}" for codename in codenames]))

    def ask(self, request: HttpRequest, verb: Verb, selection: bulk.Selection, *, back: str) -> HttpResponse:
        """Show the page: a dry run. It changes nothing."""
        if not self.allowed(request, verb, failure=selection.failure is not None):
            raise PermissionDenied
        why_not = _why_not(verb, selection)
        count = Capped(0, bulk.COUNTED) if why_not else bulk.count(self.session, selection)
        if not count and not count.more:
            why_not = why_not or _("There is nothing to do: no message matches.")
            messages.warning(request, f"{verb.label}: {why_not}")
            return HttpResponseRedirect(back)
        number, expected = secrets.token_hex(16), bulk.COUNTED + 1 if count.more else int(count)
        ticket = SignedOrder(number, str(request.user.pk), verb.name, str(selection), expected, back)
        return self._page(request, verb, ticket, form_of(verb, self.session.using))

    def apply(self, request: HttpRequest, *, verb: Verb) -> HttpResponse:
        """Order what the page showed, and redirect to its progress."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        ticket = SignedOrder.read(request.POST.get("ticket", ""))
        selection = None if ticket is None else bulk.Selection.parse(ticket.selection)
        of_failure = selection is not None and selection.failure is not None
        if not self.allowed(request, verb, failure=of_failure):
            raise PermissionDenied
        if ticket is None or selection is None or (ticket.verb, ticket.user) != (verb.name, str(request.user.pk)):
            return self._refuse(
                request,
                ticket,
                _("This page has expired, or belongs to another user. Nothing was done; open the list again."),
            )
        form = form_of(verb, self.session.using, request.POST)
        if form is not None and not form.is_valid():
            return self._page(request, verb, ticket, form)
        if not bulk.find_any(self.session, selection):
            return self._refuse(
                request,
                ticket,
                _("The messages of this page have changed in the meantime; there is nothing left to do."),
            )
        answers = {} if form is None else form.cleaned_data
        operation = self.session.outermost(lambda: self._order(request, verb, ticket, selection, answers))
        if operation is None:
            return self._refuse(request, ticket, _("This page was already confirmed; nothing was done twice."))
        return HttpResponseRedirect(self._url("change", operation.pk))

    def _order(
        self, request: HttpRequest, verb: Verb, ticket: SignedOrder, selection: bulk.Selection, answers: dict[str, Any]
    ) -> BulkOperation | None:
        user: Any = request.user
        reason, target = answers.get("reason", ""), answers.get("queue", "")
        with self.session.transaction():
            operation = BulkOperation.objects.order(
                verb.name,
                selection,
                expected=ticket.count,
                reason=reason,
                user=user,
                ticket=ticket.number,
                target=target,
                using=self.session.using,
            )
            if operation is not None:
                with override(None):  # English, as of Django's own entries
                    what = f"{described(selection, self.session.using)}{f' → {target}' if target else ''}"
                    text = f"Started: {verb.label}, {what}. {reason}".strip()
                logbook.note(user, [operation], ADDITION, text)
        return operation

    def _page(self, request: HttpRequest, verb: Verb, ticket: SignedOrder, form: Form | None) -> HttpResponse:
        selection = bulk.Selection.parse(ticket.selection)
        count = Capped(ticket.count, bulk.COUNTED)
        context = {
            **self.site.each_context(request),
            "opts": BulkOperation._meta,
            "title": f"{verb.label}: {counted(count)}",
            "verb": verb,
            "label": verb.label,
            "ticket": str(ticket),
            "count": counted(count),
            "what": described(selection, self.session.using),
            "step": bulk.STEP,
            "form": form,
            "unserved": unserved(self.session.using),
            "operations": conf.get("OPERATIONS_QUEUE"),
            "media": self.media,
            "action_url": self._url(f"order_{verb.name}"),
            "cancel_url": ticket.back,
        }
        request.current_app = self.site.name
        return TemplateResponse(request, "admin/django_dbqueue/bulkoperation/order.html", context)

    def _refuse(self, request: HttpRequest, ticket: SignedOrder | None, why: str) -> HttpResponse:
        messages.warning(request, why)
        back = ticket.back if ticket is not None else ""
        safe = url_has_allowed_host_and_scheme(back, allowed_hosts=None)
        return HttpResponseRedirect(back if safe else reverse("admin:index", current_app=self.site.name))

    def _url(self, view: str, *args: object) -> str:
        return reverse(f"admin:django_dbqueue_bulkoperation_{view}", args=args, current_app=self.site.name)


def _why_not(verb: Verb, selection: bulk.Selection) -> str:
    """Say why this can't be done to all of these; '' if it can."""
    if selection.state not in verb.states:
        return _("This can't be done to any of the messages.")
    if selection.queue == conf.get("OPERATIONS_QUEUE"):
        return _("Bulk operations run through this queue: select its messages one by one.")
    return ""


def counted(count: Capped) -> str:
    """Return a count of messages in words."""
    return ngettext("%(n)s message", "%(n)s messages", count) % {"n": count}


def described(selection: bulk.Selection, using: str) -> str:
    """Return a selection in words."""
    if selection.failure is not None:
        group = Failure.objects.using(using).filter(pk=selection.failure).first()
        return _("dead messages of the failure %(failure)s") % {"failure": group or f"#{selection.failure}"}
    words = {"state": WORDS[selection.state].title, "queue": selection.queue}
    return _("%(state)s of queue %(queue)s") % words if selection.queue else _("%(state)s of all queues") % words


def unserved(using: str) -> bool:
    """Return whether no live worker serves the queue of bulk operations."""
    rows = Worker.objects.using(using).filter(beating(clock(using)))
    queue = conf.get("OPERATIONS_QUEUE")
    return not any(queue in queues.split(",") for queues in rows.values_list("queues", flat=True)[:1_000])
