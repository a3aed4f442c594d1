"""Statistics: what ended per queue and hour, as the workers or the pipeline's job have counted it."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy

from django_dbqueue.admin import display
from django_dbqueue.admin.bounded_lists import LIST_CAP, BoundedChangeList
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.insight.first_ids import latest_hours
from django_dbqueue.models import ALL_QUEUES, QueueStatistic
from django_dbqueue.sessions.django_session import session_of


class StatisticChangeList(BoundedChangeList):
    """The newest hours, by the index on them, or those of one queue."""

    heavy = ()

    def find_ids(self, _request: HttpRequest) -> list[int]:
        alias, name = self.root_queryset.db, self.query.strip()
        if name:
            of_one = QueueStatistic.objects.using(alias).filter(queue=name)
            return list(of_one.order_by("-hour").values_list("id", flat=True)[: LIST_CAP + 1])
        newest = latest_hours(session_of(alias), limit=LIST_CAP + 1)
        newest.sort(key=lambda row: row[1])  # by name within an hour: the server would sort all hours for it
        newest.sort(key=lambda row: row[0], reverse=True)
        return [row for _hour, queue, row in newest if queue != ALL_QUEUES]


@admin.register(QueueStatistic)
class QueueStatisticAdmin(ReadOnlyAdmin):
    """The newest hours first; hours are in UTC, and times in seconds."""

    list_display = ("of_hour", "queue", "messages", "failures", "retries", "dead", "wait", "run_time")
    list_display_links = ("of_hour",)
    list_per_page = 50
    ordering = ("-hour", "queue")
    search_fields = ("queue",)  # shows the box; StatisticChangeList does the search
    search_help_text = gettext_lazy("The whole name of a queue.")
    fields = ("of_hour", "queue", "messages", "failures", "retries", "dead", "wait", "run_time", "computed_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[QueueStatistic]:
        return super().get_queryset(request).exclude(queue=ALL_QUEUES)

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[StatisticChangeList]:  # noqa: ARG002
        return StatisticChangeList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"cap": LIST_CAP, **(extra_context or {})})

    @admin.display(description=gettext_lazy("hour (UTC)"))
    def of_hour(self, obj: QueueStatistic) -> str:
        return display.utc(obj.hour)

    @admin.display(description=gettext_lazy("wait in s (50 %, 95 %, 99 %)"))
    def wait(self, obj: QueueStatistic) -> str:
        return display.seconds(obj.wait_p50, obj.wait_p95, obj.wait_p99)

    @admin.display(description=gettext_lazy("run time in s (50 %, 95 %, 99 %)"))
    def run_time(self, obj: QueueStatistic) -> str:
        return display.seconds(obj.run_p50, obj.run_p95, obj.run_p99)
