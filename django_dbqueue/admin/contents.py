"""What the pages of messages and of the history show of a message's content: payload, headers, error, a download.

Payload and headers are for users with the permission ``view_payload``; everybody else sees only the class and the
places of an error. What is redacted is decided in ``django_dbqueue.redaction.policy`` and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_dbqueue import codecs
from django_dbqueue.admin import display, logbook
from django_dbqueue.admin.attempts import attempts_of
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.models import Message, Result
from django_dbqueue.redaction.policy import Content, Excerpt, Stored, content_of, error_text, is_redacting
from django_dbqueue.states.counts import grouped
from django_dbqueue.tasks.task_headers import task_named
from django_dbqueue.typed_values import MAX_ID

ERROR_READ: Final = 1_000
"""Characters of an error that a list reads, to show the first line."""
EXCERPT: Final = 8_192
"""A list masks errors using payloads and headers up to this many characters; with longer ones it shows the outline."""

if TYPE_CHECKING:

    class StoredRow(Stored, Protocol):
        """A message, archived or not, as these pages have read it."""

        error: str | None
        error_start: str | None
        sees_payload: bool


class ContentAdmin(ReadOnlyAdmin):
    """The rows of a model that holds messages, with their content shown by the rules."""

    def sees_payload(self, request: HttpRequest) -> bool:
        """Return whether this user may see payloads."""
        return bool(request.user.has_perm(f"{self.opts.app_label}.view_payload"))

    def content_fields(self, request: HttpRequest) -> list[str]:
        """Return the fields of the content that a page shows."""
        content = ["payload", "headers"] if self.sees_payload(request) else ["payload_hidden"]
        return ["content_type", *content]

    def task_fields(self, request: HttpRequest, obj: Any) -> list[str]:
        """Return the fields of a message that is a task, if it is one."""
        if obj is None or task_named(obj.headers_text) is None:
            return []
        return ["task", "attempts", *(["result"] if self.sees_payload(request) else [])]

    def with_beginnings(self, request: HttpRequest, rows: QuerySet[Any]) -> Any:
        """Return the rows with the beginning of the error, and of what is needed to mask it."""
        rows = rows.annotate(error_start=Left("error", ERROR_READ))
        return _with_excerpts(rows) if is_redacting() and self.sees_payload(request) else rows

    def first_line(self, request: HttpRequest, row: StoredRow) -> str:
        """Return the first line of the error of a row ``with_beginnings``, as this user may see it."""
        text = error_text(row.error_start, of=_excerpt(row), sees_payload=self.sees_payload(request))
        return next(iter(text.strip().splitlines()), "")[:100]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            row.sees_payload = self.sees_payload(request)
        return row

    # -- the download -------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_payload"
        return [
            path("<int:pk>/payload/", self.admin_site.admin_view(self.download_payload), name=name),
            *super().get_urls(),
        ]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        if self.sees_payload(request):
            context["download_url"] = self._url("payload", context["original"].pk)
        return super().render_change_form(request, context, *args, **kwargs)

    def download_payload(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Send the whole payload as a file, and write the admin log, which is why it is a POST."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not (self.has_view_permission(request) and self.sees_payload(request)):
            raise PermissionDenied
        row: Any = self.get_object(request, str(pk)) if pk <= MAX_ID else None
        if row is None:
            raise Http404
        content = content_of(row)
        if content.hidden:
            messages.warning(request, content.hidden)
            return HttpResponseRedirect(self._url("change", quote(pk)))
        user: Any = request.user
        logbook.note(user, [row], CHANGE, "Payload downloaded.")
        return _attachment(f"{self.opts.model_name}-{pk}", row, content)

    def _url(self, view: str, *args: object) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{view}"
        return reverse(name, args=args, current_app=self.admin_site.name)

    # -- fields -------------------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("error"))
    def error_block(self, obj: StoredRow) -> str:
        if not obj.error:
            return display.NOTHING
        note = "" if obj.sees_payload else display.hidden_error()
        return display.block(error_text(obj.error, of=obj, sees_payload=obj.sees_payload), note)

    @admin.display(description=gettext_lazy("payload"))
    def payload(self, obj: StoredRow) -> str:
        content = content_of(obj)
        if content.hidden:
            return content.hidden
        if content.payload_broken:
            return _raw(content.payload, content.payload_broken)
        if isinstance(content.payload, bytes):
            size = len(content.payload)
            note = ngettext("%(size)s byte, shown as base64.", "%(size)s bytes, shown as base64.", size)
            return display.block(
                codecs.encode(content.payload, max_bytes=2 * size + 4)[0], note % {"size": grouped(size)}
            )
        return _block(obj, content.payload)

    @admin.display(description=gettext_lazy("headers"))
    def headers(self, obj: StoredRow) -> str:
        content = content_of(obj)
        if content.hidden or obj.headers_text is None:
            return display.NOTHING
        if content.headers_broken:
            return _raw(content.headers, content.headers_broken)
        return display.block(_pretty(content.headers))

    @admin.display(description=gettext_lazy("task"))
    def task(self, obj: StoredRow) -> str:
        return task_named(obj.headers_text) or display.NOTHING

    @admin.display(description=gettext_lazy("failed attempts"))
    def attempts(self, obj: Any) -> str:
        def shown(text: str) -> str:
            return error_text(text, of=obj, sees_payload=obj.sees_payload)

        message_id = getattr(obj, "message_id", obj.pk)
        return attempts_of(message_id, using=self.alias, shown=shown) or display.NOTHING

    @admin.display(description=gettext_lazy("result"))
    def result(self, obj: Any) -> str:
        kept = Result._default_manager.using(self.alias).filter(pk=getattr(obj, "message_id", obj.pk)).first()
        if kept is None:
            return display.NOTHING
        content = content_of(Excerpt(obj.queue, kept.body, kept.content_type))
        return content.hidden or display.block(_pretty(content.payload, most=display.SHOWN))

    @admin.display(description=gettext_lazy("payload"))
    def payload_hidden(self, _obj: object) -> str:
        return display.hidden()


def excerpts(using: str, ids: Iterable[int]) -> dict[int, Excerpt]:
    """Return what masks the errors of these messages, of those that are there and are not too long for a list."""
    rows: Any = _with_excerpts(Message.objects.using(using).filter(pk__in=ids).only("queue", "content_type"))
    return {row.pk: excerpt for row in rows if (excerpt := _excerpt(row)) is not None}


def _with_excerpts(rows: QuerySet[Any]) -> Any:
    return rows.annotate(body_start=Left("body", EXCERPT + 1), headers_start=Left("headers_text", EXCERPT + 1))


def _excerpt(row: StoredRow) -> Excerpt | None:
    body, headers = getattr(row, "body_start", None), getattr(row, "headers_start", None)
    if body is None or len(body) > EXCERPT or len(headers or "") > EXCERPT:
        return None
    return Excerpt(row.queue, body, row.content_type, headers)


def _raw(text: str, why: str) -> SafeString:
    return display.block(text, _("It can't be decoded; this is the stored text. %(why)s") % {"why": why})


def _block(row: StoredRow, payload: object) -> SafeString:
    """Return a payload as a page shows it: of a long one, only the beginning is formatted."""
    text = _text(row, payload, most=display.SHOWN)
    return display.block(text, size=len(row.body) if len(text) > display.SHOWN else 0)


def _pretty(value: object, *, most: int | None = None) -> str:
    """Return JSON formatted for people; a lone surrogate, which no page can carry, as JSON escapes it."""
    parts, size = [], 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        parts.append(part)
        size += len(part)
        if most is not None and size > most:
            break
    return "".join(parts).encode("utf-8", "backslashreplace").decode()


def _text(row: StoredRow, payload: object, *, most: int | None = None) -> str:
    return payload if isinstance(payload, str) and row.content_type == codecs.TEXT else _pretty(payload, most=most)


def _attachment(name: str, row: StoredRow, content: Content) -> HttpResponse:
    """Return the payload as a file that no browser opens: byte for byte as sent, if nothing is redacted."""
    kind, ending = "text/plain; charset=utf-8", "txt"
    data: str | bytes = row.body or ""
    if content.payload_broken:
        pass
    elif isinstance(content.payload, bytes):
        kind, ending, data = "application/octet-stream", "bin", content.payload
    else:
        data = _text(row, content.payload) if is_redacting() else data
        ending = "json" if row.content_type == codecs.JSON else ending
    response = HttpResponse(data, content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="{name}.{ending}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response
