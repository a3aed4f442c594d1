"""Queues: those with a row and those that merely have messages; pause and resume with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import InvalidPage, Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from django_dbqueue.admin import dashboard, display
from django_dbqueue.admin.bounded_lists import CELL_CAP, walk_of
from django_dbqueue.admin.pause_pages import PauseAdmin, Pausing
from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.models import Message, Queue
from django_dbqueue.states.counts import Capped
from django_dbqueue.states.depths import depths

if TYPE_CHECKING:

    class ShownQueue(Queue):
        """A queue, with its counts once they are known, and whether the user may follow them."""

        counts: dict[str, Capped] | None
        links: bool


class QueueChangeList(ChangeList):
    """Every queue by name. Viewing creates no rows: a queue without one is shown as it is, open."""

    def get_queryset(self, request: HttpRequest, *_: object, **__: object) -> QuerySet[Queue]:
        self.filter_specs, self.has_filters, odd, _duplicates, self.has_active_filters = self.get_filters(request)
        if odd:
            raise IncorrectLookupParameters(", ".join(odd))
        return self.root_queryset

    def get_results(self, request: HttpRequest) -> None:
        rows = {row.name: row for row in self.root_queryset}
        names = sorted({*rows, *walk_of(request, self.root_queryset.db).queues})
        wanted = self.query.strip().lower()
        found = [rows.get(name) or Queue(name=name) for name in names if wanted in name.lower()]
        self.paginator = Paginator(found, self.list_per_page)
        try:
            self.result_list = self.paginator.page(self.page_num).object_list
        except InvalidPage as error:
            raise IncorrectLookupParameters from error
        self.result_count = len(found)
        self.multi_page = self.paginator.num_pages > 1
        self.show_full_result_count = self.can_show_all = False
        self.full_result_count = self.result_count
        self.show_admin_actions = bool(found)


@admin.action(permissions=["pause"], description=_("Pause selected queues"))
def pause(model_admin: QueueAdmin, request: HttpRequest, _queryset: QuerySet[Queue]) -> HttpResponse:
    return model_admin.ask_many(request, "pause")


@admin.action(permissions=["pause"], description=_("Resume selected queues"))
def resume(model_admin: QueueAdmin, request: HttpRequest, _queryset: QuerySet[Queue]) -> HttpResponse:
    return model_admin.ask_many(request, "resume")


def _count(name: str) -> Callable[[QueueAdmin, ShownQueue], str]:
    state = WORDS[name]

    @admin.display(description=state.label)
    def column(model_admin: QueueAdmin, obj: ShownQueue) -> str:
        return model_admin.count(obj, name)

    column.__name__ = name
    return column


@admin.register(Queue)
class QueueAdmin(PauseAdmin):
    """Queues, how many messages each has in each state (up to a cap), and whether claiming is allowed."""

    list_display = ("name", "is_open", "stuck", "dead", "running", "ready", "delayed", "waiting", "reason")
    list_per_page = 25
    search_fields = ("name",)
    actions: Sequence[Any] = [pause, resume]
    ordering = ("name",)
    fields: ClassVar[Any] = ("name", "is_open", "paused_at", "paused_until", "paused_by", "pause_reason", *WORDS)

    stuck, dead, running = _count("stuck"), _count("dead"), _count("running")
    ready, delayed, waiting, done = _count("ready"), _count("delayed"), _count("waiting"), _count("done")

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[QueueChangeList]:  # noqa: ARG002
        return QueueChangeList

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist: Any = super().get_changelist_instance(request)
        counts = self._counts([queue.name for queue in changelist.result_list])
        for queue in changelist.result_list:
            queue.counts, queue.links = counts[queue.name], self._sees_messages(request)
        return changelist

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Queue | None:
        """Return the queue, if it has a row or messages."""
        queue: Any = super().get_object(request, object_id, from_field)
        if queue is None and object_id in walk_of(request, self.alias).queues:
            queue = Queue(name=object_id)
        if queue is not None:
            queue.counts, queue.links = None, self._sees_messages(request)
        return queue  # type: ignore[no-any-return]

    def _sees_messages(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(f"{self.opts.app_label}.view_message"))

    def _counts(self, names: list[str]) -> dict[str, dict[str, Capped]]:
        found = depths(self.session, names, states=WORDS, cap=CELL_CAP)
        return {name: depth.counts for name, depth in found.items()}

    # -- pause and resume ---------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view, prefix = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("figures/", view(dashboard.figures), name=f"{prefix}_figures"),
            path("pause/", view(self._apply("pause")), name=f"{prefix}_pause_many"),
            path("resume/", view(self._apply("resume")), name=f"{prefix}_resume_many"),
            path("<str:object_id>/pause/", view(self._ask_one("pause")), name=f"{prefix}_pause"),
            path("<str:object_id>/resume/", view(self._ask_one("resume")), name=f"{prefix}_resume"),
            *super().get_urls(),
        ]

    def ask_many(self, request: HttpRequest, verb: str) -> HttpResponse:
        """Show the confirmation page for the queues that were ticked."""
        names = dict.fromkeys(request.POST.getlist(ACTION_CHECKBOX_NAME))
        queues = [queue for name in names if (queue := self.get_object(request, name)) is not None]
        return Pausing(self).ask(request, verb, queues)

    def _ask_one(self, verb: str) -> Callable[..., HttpResponse]:
        def ask_one(request: HttpRequest, object_id: str) -> HttpResponse:
            if not self.has_view_permission(request):
                return Pausing(self).ask(request, verb, [])  # which refuses
            queue = self.get_object(request, unquote(object_id))
            if queue is None:
                raise Http404
            return Pausing(self).ask(request, verb, [queue], back="detail")

        return ask_one

    def _apply(self, verb: str) -> Callable[[HttpRequest], HttpResponse]:
        def apply(request: HttpRequest) -> HttpResponse:
            return Pausing(self).apply(request, verb)

        return apply

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        queue = context["original"]
        if self.has_pause_permission(request):
            labels: Mapping[str, object] = Pausing.LABELS
            if queue.is_paused:
                labels = {"resume": labels["resume"], "pause": _("Change the pause")}
            context["verbs"] = [
                {"name": verb, "label": label, "url": self._url_of(verb, queue)}
                for verb, label in labels.items()
                if queue.is_paused or verb == "pause"
            ]
        return super().render_change_form(request, context, *args, **kwargs)

    def _url_of(self, verb: str, queue: Queue) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{verb}"
        return reverse(name, args=[quote(queue.pk)], current_app=self.admin_site.name)

    # -- columns ------------------------------------------------------------------------------------------

    @admin.display(description=_("claims"))
    def is_open(self, obj: Queue) -> str:
        return display.claims_of(obj)

    @admin.display(description=_("reason"))
    def reason(self, obj: Queue) -> str:
        """Return why it is paused; of a pause that has ended, its own page tells."""
        return obj.pause_reason if obj.is_paused else ""

    def count(self, obj: ShownQueue, state: str) -> str:
        """Return the capped count, as a link to the list that it counts."""
        if obj.counts is None:
            obj.counts = self._counts([obj.name])[obj.name]
        count = obj.counts[state]
        kind = f"dbqueue-count dbqueue-count-{state}" if count else "dbqueue-count"
        if not count or not obj.links:
            return format_html('<span class="{}">{}</span>', kind, str(count))
        name = f"admin:{Message._meta.app_label}_{Message._meta.model_name}_changelist"
        url = reverse(name, current_app=self.admin_site.name)
        query = urlencode({"queue": obj.name, "state": state})
        return format_html('<a class="{}" href="{}?{}">{}</a>', kind, url, query, str(count))
