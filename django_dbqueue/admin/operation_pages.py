"""Bulk operations: what was ordered, its progress, and the button that stops one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from django_dbqueue import conf
from django_dbqueue.admin import display, logbook
from django_dbqueue.admin.bounded_lists import LIST_CAP, BoundedChangeList
from django_dbqueue.admin.bulk_orders import Ordering, described, unserved
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.models import BulkOperation, Message
from django_dbqueue.models.operation import COMPLETED, FAILED, IN_PROGRESS, REFUSED, STOPPED
from django_dbqueue.operations import bulk
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.redaction import stored_texts
from django_dbqueue.states.counts import Capped, grouped
from django_dbqueue.states.table import Stage

STATES = {
    IN_PROGRESS: ("running", "▶", pgettext_lazy("bulk operation", "running")),
    COMPLETED: ("done", "✓", pgettext_lazy("bulk operation", "done")),
    STOPPED: ("stuck", "■", pgettext_lazy("bulk operation", "stopped")),
    REFUSED: ("dead", "✕", pgettext_lazy("bulk operation", "refused")),
    FAILED: ("dead", "✕", pgettext_lazy("bulk operation", "failed")),
}


class OperationChangeList(BoundedChangeList):
    """The newest ones."""

    heavy = ("error",)

    def find_ids(self, _request: HttpRequest) -> list[int]:
        rows = BulkOperation.objects.using(self.root_queryset.db).order_by("-id")
        return list(rows.values_list("id", flat=True)[: LIST_CAP + 1])


@admin.register(BulkOperation)
class BulkOperationAdmin(ReadOnlyAdmin):
    """What was ordered, read-only; a POST stops a running one."""

    list_display = ("number", "badge", "what", "progress", "ordered_by", "ordered_at", "ended_at")
    list_display_links = ("number",)
    list_per_page = 50
    fields = ("what", "reason_given", "ordered_by", "ordered_at", "ended_at", "remark")

    class Media(ReadOnlyAdmin.Media):
        js = ("django_dbqueue/operation.js",)

    def has_view_permission(self, request: HttpRequest, obj: BulkOperation | None = None) -> bool:
        """Return whether the user may view them; everyone may see an operation that they ordered themselves."""
        own = obj is not None and obj.user_id == str(request.user.pk)
        return own or super().has_view_permission(request, obj)

    def has_stop_permission(self, request: HttpRequest) -> bool:
        """Return whether this user may stop operations, including other people's."""
        return bool(request.user.has_perm("django_dbqueue.stop_bulkoperation"))

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[OperationChangeList]:  # noqa: ARG002
        return OperationChangeList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        words = {"cap": LIST_CAP, "title": capfirst(str(self.opts.verbose_name_plural))}
        return super().changelist_view(request, {**words, **(extra_context or {})})

    def get_urls(self) -> list[URLPattern]:
        stop = path("<int:pk>/stop/", self.admin_site.admin_view(self.stop), name="django_dbqueue_bulkoperation_stop")
        return [*Ordering(self).urls(), stop, *super().get_urls()]

    # -- progress -----------------------------------------------------------------------------------------

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        obj = context["original"]
        runs = obj.state == IN_PROGRESS
        context |= {
            "title": str(self.what(obj)),
            "badge": self.badge(obj),
            "runs": runs,
            "progress": self.progress(obj),
            "bar_max": max(obj.expected, obj.moved + obj.left_alone, 1) if obj.expected <= bulk.COUNTED else None,
            "bar_value": obj.moved + obj.left_alone,
            "left_alone": obj.left_alone,
            "trouble": self._trouble(obj) if runs else "",
            "stop_url": self._url("stop", obj.pk) if runs and self.has_stop_permission(request) else "",
        }
        return super().render_change_form(request, context, *args, **kwargs)

    def _trouble(self, obj: BulkOperation) -> str:
        """Say why it doesn't proceed, if that can be seen; else ''."""
        step = Message.objects.using(self.alias).filter(pk=obj.message_id or 0).first()
        if step is None or step.stage is Stage.FINISHED:
            # Reread, since this may be a step that has just ended
            obj.refresh_from_db(fields=["message_id", "state"])
            if obj.state != IN_PROGRESS or (step is not None and step.pk != obj.message_id):
                return ""
            return _("The message for its next step is gone. Stop this operation, and start it again.")
        if step.is_dead:
            return _("Its next step, message #%(id)s, is dead. Requeue that message to continue.") % {"id": step.pk}
        if unserved(self.alias):
            words = {"queue": conf.get("OPERATIONS_QUEUE")}
            return (
                _(
                    "No worker serves the queue %(queue)s. The operation continues when a worker is started without "
                    "--queues."
                )
                % words
            )
        return ""

    def stop(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Stop a running operation, after the step in progress."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        obj = self.get_object(request, str(pk))
        if not self.has_stop_permission(request) or (obj is not None and not self.has_view_permission(request, obj)):
            raise PermissionDenied
        if obj is None:
            raise Http404
        if self.session.outermost(lambda: self._stop(request, pk)):
            messages.success(request, _("Stopped. Messages that were already moved stay moved."))
        else:
            messages.warning(request, _("It had already ended; nothing was changed."))
        return HttpResponseRedirect(self._url("change", pk))

    def _stop(self, request: HttpRequest, pk: int) -> bool:
        user: Any = request.user
        with self.session.transaction():
            operation = BulkOperation.objects.locked(pk, using=self.alias)
            if operation is None or operation.state != IN_PROGRESS:
                return False
            operation.end(STOPPED, error=stored_texts.STOPPED % {"user": user.get_username()})
            text = f"Stopped: {operation.moved} moved, {operation.left_alone} left alone."
            logbook.note(user, [operation], CHANGE, text)
        return True

    def _url(self, view: str, *args: object) -> str:
        return reverse(f"admin:django_dbqueue_bulkoperation_{view}", args=args, current_app=self.admin_site.name)

    # -- columns ------------------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("operation"))
    def number(self, obj: BulkOperation) -> str:
        return f"#{obj.pk}"

    @admin.display(description=gettext_lazy("state"))
    def badge(self, obj: BulkOperation) -> str:
        return display.badge(*STATES[obj.state])

    @admin.display(description=gettext_lazy("what"))
    def what(self, obj: BulkOperation) -> str:
        text = f"{capfirst(str(VERBS[obj.verb].label))}: {described(obj.chosen, self.alias)}"
        return f"{text} → {obj.target}" if obj.target else text

    @admin.display(description=gettext_lazy("progress"))
    def progress(self, obj: BulkOperation) -> str:
        words = {"moved": grouped(obj.moved), "expected": Capped(obj.expected, bulk.COUNTED)}
        text = _("%(moved)s of %(expected)s moved") % words
        return format_html('<span class="nowrap">{}</span>', text)

    @admin.display(description=gettext_lazy("reason"), empty_value=display.NOTHING)
    def reason_given(self, obj: BulkOperation) -> str | None:
        return obj.reason or None

    @admin.display(description=gettext_lazy("remark"))
    def remark(self, obj: BulkOperation) -> str:
        return display.block(stored_texts.translated(obj.error)) if obj.error else display.NOTHING
