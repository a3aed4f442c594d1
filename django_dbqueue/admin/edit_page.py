"""The page on which a payload is edited: its POST sends the message again, and drops the old one.

Whoever edits must see all of the payload, so it needs the permission for payloads too, and what is redacted can't be
edited: the mark in place of a value would be sent.
"""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_dbqueue import codecs
from django_dbqueue.admin import logbook
from django_dbqueue.codecs import Json, decode_json
from django_dbqueue.exceptions import DBQueueError, UndecodableMessage
from django_dbqueue.models import Message
from django_dbqueue.operations.outcome import CHANGED, in_words, sentence
from django_dbqueue.operations.seen import Seen
from django_dbqueue.redaction.policy import as_stored, content_of, is_redacting
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.table import Stage
from django_dbqueue.typed_values import MAX_ID
from django_dbqueue.value_types import joined

PIN = "message"


class PayloadForm(forms.Form):
    """The payload as text: what is stored as JSON stays JSON, and what is text stays text."""

    payload = forms.CharField(
        label=gettext_lazy("Payload"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"class": "vLargeTextField", "rows": 20, "spellcheck": "false", "autofocus": True}),
    )

    def __init__(self, data: Any = None, *, message: Any) -> None:
        super().__init__(data, initial={"payload": _text_of(message)})
        self._message = message
        self._types = codecs.types_among(message.headers_text) if message.content_type == codecs.JSON else None
        if self._types is not None:
            types = json.dumps(self._types, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
            text = _("The consumer gets these values as these types, and as strings where they don't fit: %(types)s")
            self.fields["payload"].help_text = text % {"types": types}

    def clean_payload(self) -> Json:
        """Return the payload, decoded; refuse one that is not JSON, or the same as before."""
        text = self.cleaned_data["payload"]
        if self._message.content_type != codecs.JSON:
            payload: Json = text if "\r\n" in (self._message.body or "") else text.replace("\r\n", "\n")
        else:
            try:
                payload = decode_json(text)
            except UndecodableMessage as error:
                raise forms.ValidationError(_("This is not JSON: %(error)s") % {"error": error}) from error
        if _is_same(payload, self._message):
            raise forms.ValidationError(_("The payload is as before. To send it as it is, use “Send again”."))
        return payload if self._types is None else joined(payload, self._types)


class Editing:
    """The view of the ModelAdmin of messages."""

    def __init__(self, model_admin: Any) -> None:
        self.admin = model_admin
        self.site = model_admin.admin_site
        self.opts = model_admin.opts

    def urls(self) -> list[URLPattern]:
        """Return the one of the page."""
        name = f"{self.opts.app_label}_{self.opts.model_name}_edit"
        return [path("<int:pk>/edit/", self.site.admin_view(self.edit), name=name)]

    def allowed(self, request: HttpRequest) -> bool:
        """Return whether this user may do this."""
        may = request.user.has_perms([f"django_dbqueue.{name}" for name in ("edit_message", "view_payload")])
        return bool(self.admin.has_view_permission(request) and may)

    def url(self, message: Any) -> str:
        """Return the address of the page of a message."""
        return self._url("edit", message.pk)

    def edit(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the page; or send what it has sent."""
        if request.method not in {"GET", "HEAD", "POST"}:
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        if not self.allowed(request):
            raise PermissionDenied
        message = self.admin.get_object(request, str(pk)) if pk <= MAX_ID else None
        if message is None:
            raise Http404
        if why := why_not(message):
            messages.warning(request, why)
            return HttpResponseRedirect(self._url("change", quote(pk)))
        form = PayloadForm(request.POST if request.method == "POST" else None, message=message)
        if request.method != "POST":
            return self._page(request, message, form, Seen.of(message))
        pin = Seen.parse(request.POST.get(PIN, ""))
        if pin != Seen.of(message):
            messages.warning(request, sentence(message, CHANGED))
            return HttpResponseRedirect(self._url("change", quote(pk)))
        if form.is_valid() and (new := self._send(request, message, form)) is not None:
            text = _("Message #%(old)s was sent again as #%(new)s.") % {"old": message.pk, "new": new.pk}
            messages.success(request, text)
            return HttpResponseRedirect(self._url("change", quote(new.pk)))
        return self._page(request, message, form, Seen.of(message))

    def _send(self, request: HttpRequest, message: Any, form: PayloadForm) -> Message | None:
        user: Any = request.user
        session: DjangoSession = self.admin.session

        def send() -> Message:
            with session.transaction():
                rows = Message.objects.using(session.using)
                new = rows.send_edited(message, form.cleaned_data["payload"], by=user.get_username())
                text = f"Sent again with an edited payload: #{new.pk}."
                logbook.note(user, [message], CHANGE, text)
            return new

        try:
            return session.outermost(send)
        except DBQueueError as error:
            form.add_error(None, in_words(error))
        return None

    def _page(self, request: HttpRequest, message: Any, form: PayloadForm, pin: Seen) -> HttpResponse:
        context = {
            **self.site.each_context(request),
            "opts": self.opts,
            "title": _("Edit the payload of %(message)s") % {"message": message},
            "label": _("Edit"),
            "pin": pin,
            "form": form,
            "media": self.admin.media,
            "cancel_url": self._url("change", quote(message.pk)),
        }
        request.current_app = self.site.name
        return TemplateResponse(request, "admin/django_dbqueue/message/edit.html", context)

    def _url(self, view: str, *args: object) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{view}"
        return reverse(name, args=args, current_app=self.site.name)


def why_not(message: Any) -> str:
    """Say why the payload of a message can't be edited; '' if it can."""
    if message.stage is Stage.CLAIMED:
        return _("It is claimed: release it first.")
    if message.flow is not None and message.stage is not Stage.FINISHED:
        return _("It is part of a flow: those that wait for it would not wait for the new one.")
    if message.content_type not in (codecs.JSON, codecs.TEXT):
        return _("Its payload is bytes, which can't be edited here.")
    content = content_of(message)
    if content.hidden:
        return content.hidden
    if content.headers_broken:
        return _("Its headers can't be decoded, so they can't be sent again.")
    if is_redacting() and content != as_stored(message):
        return _("Parts of it are redacted, and would be lost.")
    return ""


def _is_same(payload: Json, message: Any) -> bool:
    try:
        return json.dumps(payload) == json.dumps(_stored(message))  # true is not 1 there
    except UndecodableMessage:
        return False


def _stored(message: Any) -> Json:
    """Return the payload without the types that its headers name."""
    return codecs.decode(message.body or "", message.content_type)


def _text_of(message: Any) -> str:
    """Return the payload as text to be edited; as it is stored if it can't be decoded."""
    if message.content_type != codecs.JSON:
        return message.body or ""
    try:
        payload = _stored(message)
    except UndecodableMessage:
        return message.body or ""
    text = json.dumps(payload, ensure_ascii=False, indent=2)
    is_sendable = text == text.encode("utf-8", "ignore").decode()  # half a surrogate pair is not
    return text if is_sendable else json.dumps(payload, indent=2)
