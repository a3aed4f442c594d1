"""Cancel a flow: a page that says what will be dropped, and asks for the reason; its POST drops it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext_lazy

from django_dbqueue.admin import logbook
from django_dbqueue.admin.forms import ReasonForm
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.flows.flow_progress import SHOWN, Progress
from django_dbqueue.models import Flow
from django_dbqueue.states.counts import grouped
from django_dbqueue.typed_values import MAX_ID

LABEL = pgettext_lazy("verb", "Cancel this flow")


class Cancelling:
    """The view of the flows' ModelAdmin."""

    def __init__(self, model_admin: ReadOnlyAdmin) -> None:
        self.admin = model_admin
        self.site = model_admin.admin_site
        self.opts = model_admin.opts

    def urls(self) -> list[URLPattern]:
        """Return the one address, which is asked and confirmed."""
        view = self.site.admin_view(self.page)
        return [path("<int:pk>/cancel/", view, name=f"{self.opts.app_label}_flow_cancel")]

    def offers(self, request: HttpRequest, flow: Flow, seen: Progress) -> list[dict[str, object]]:
        """Return the button for a flow's page, if this user may cancel it, and something is left of it."""
        if seen.all_finished or not self._may(request):
            return []
        return [{"name": "cancel", "label": LABEL, "url": self._url("cancel", flow.pk)}]

    def page(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the page; a POST with a reason drops what is not done."""
        if request.method not in {"GET", "HEAD", "POST"}:
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        if not self._may(request):
            raise PermissionDenied
        flow = self.admin.get_queryset(request).filter(pk=pk).first() if pk <= MAX_ID else None
        if flow is None:
            raise Http404
        form = ReasonForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            return self._cancel(request, flow, form.cleaned_data["reason"])
        seen = flow.progress(most=SHOWN)
        context: dict[str, Any] = {
            **self.site.each_context(request),
            "opts": self.opts,
            "title": LABEL,
            "label": LABEL,
            "flow": flow,
            "all_finished": seen.all_finished,
            "counts": {name: grouped(getattr(seen, name)) for name in ("left", "dead", "counted", "total")},
            "is_cut": seen.counted < seen.total,
            "form": form,
            "media": self.admin.media,
            "cancel_url": self._url("change", quote(pk)),
        }
        request.current_app = self.site.name
        return TemplateResponse(request, "admin/django_dbqueue/flow/cancel.html", context)

    def _cancel(self, request: HttpRequest, flow: Flow, reason: str) -> HttpResponse:
        user: Any = request.user
        manager = Flow.objects.db_manager(self.admin.alias)
        dropped = manager.cancel(flow.pk, reason=reason, by=user.get_username())
        if dropped:
            logbook.note(user, [flow], CHANGE, f"Cancelled, {dropped} messages dropped: {reason}")
            text = ngettext(
                "Flow %(flow)s is cancelled: %(n)s message was dropped.",
                "Flow %(flow)s is cancelled: %(n)s messages were dropped.",
                dropped,
            )
            messages.success(request, text % {"flow": flow, "n": grouped(dropped)})
        else:
            text = _("Nothing was left to cancel of flow %(flow)s: all of its messages are done.")
            messages.warning(request, text % {"flow": flow})
        return HttpResponseRedirect(self._url("change", quote(flow.pk)))

    def _may(self, request: HttpRequest) -> bool:
        may_cancel = request.user.has_perm(f"{self.opts.app_label}.cancel_flow")
        return bool(self.admin.has_view_permission(request) and may_cancel)

    def _url(self, view: str, *args: object) -> str:
        return reverse(f"admin:{self.opts.app_label}_flow_{view}", args=args, current_app=self.site.name)
