"""Statistics: what ended per queue and hour, as the workers or the pipeline's job have counted it."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any, Final

from django.contrib import admin
from django.db.models import Max, QuerySet, Sum
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_dbqueue.admin import display
from django_dbqueue.admin.charts import Bar, bars
from django_dbqueue.admin.listing import LIST_CAP, BoundedChangeList
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.lifecycle.listing import latest_hours
from django_dbqueue.lifecycle.statements import chunks
from django_dbqueue.models import ALL_QUEUES, QueueStatistic

CHARTED_HOURS: Final = 48
HOURS_AT_ONCE: Final = 4
"""Hours of all queues that one statement sums up: a server reads thousands of rows for each."""


class StatisticChangeList(BoundedChangeList):
    """The newest hours, by the index on them, or those of one queue."""

    heavy = ()

    def find_ids(self, _request: HttpRequest) -> list[int]:
        alias, name = self.root_queryset.db, self.query.strip()
        if name:
            of_one = QueueStatistic.objects.using(alias).filter(queue=name)
            return list(of_one.order_by("-hour").values_list("id", flat=True)[: LIST_CAP + 1])
        newest = latest_hours(alias, limit=LIST_CAP + 1)
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
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).exclude(queue=ALL_QUEUES)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[StatisticChangeList]:  # noqa: ARG002
        return StatisticChangeList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        response = super().changelist_view(request, {"cap": LIST_CAP, **(extra_context or {})})
        if isinstance(response, TemplateResponse) and response.context_data and "cl" in response.context_data:
            changelist = response.context_data["cl"]
            response.context_data["chart"] = _chart(self.alias, changelist.query.strip() or ALL_QUEUES)
        return response

    @admin.display(description=gettext_lazy("hour (UTC)"))
    def of_hour(self, obj: Any) -> str:
        return _hour(obj.hour)

    @admin.display(description=gettext_lazy("wait in s (50 %, 95 %, 99 %)"))
    def wait(self, obj: Any) -> str:
        return _three(obj.wait_p50, obj.wait_p95, obj.wait_p99)

    @admin.display(description=gettext_lazy("run time in s (50 %, 95 %, 99 %)"))
    def run_time(self, obj: Any) -> str:
        return _three(obj.run_p50, obj.run_p95, obj.run_p99)


def _hour(moment: Any) -> str:
    return str(moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M"))


def _three(*seconds: float | None) -> str:
    """Return percentiles to three digits after the point, or a dash where nothing was measured."""
    return " · ".join(display.NOTHING if each is None else f"{each:.3f}" for each in seconds)


def _chart(using: str, queue: str) -> SafeString | str:
    """Return the chart of the two days up to the newest hour of the queue, or of all; nothing where there is none."""
    rows = QueueStatistic.objects.using(using)
    standing = rows if queue == ALL_QUEUES else rows.filter(queue=queue)
    newest = standing.aggregate(newest=Max("hour"))["newest"]
    if newest is None:
        return ""
    hours = [newest - timedelta(hours=back) for back in reversed(range(CHARTED_HOURS))]
    of_queue = rows.filter(queue=queue, hour__gte=hours[0]).values_list("hour", "messages", "dead")
    found = {hour: (messages, dead) for hour, messages, dead in of_queue}
    if queue == ALL_QUEUES:  # where Spark has counted, there is no row of them all
        for some in chunks([hour for hour in hours if hour not in found], HOURS_AT_ONCE):
            summed = rows.filter(hour__in=some).values_list("hour").annotate(Sum("messages"), Sum("dead")).order_by()
            found |= {hour: (messages, dead) for hour, messages, dead in summed}
    caption = _(
        "Messages finished per hour, %(first)s to %(last)s UTC, at most %(most)s; a bar's lower part are the dead ones"
    ) % {
        "most": f"{max(messages for messages, _dead in found.values()):,}",
        "first": _hour(hours[0]),
        "last": _hour(hours[-1]),
    }
    return bars([_bar(hour, *found.get(hour, (0, 0))) for hour in hours], caption=caption)


def _bar(hour: Any, messages: int, dead: int) -> Bar:
    words = ngettext(
        "%(hour)s: %(messages)s message, %(dead)s dead", "%(hour)s: %(messages)s messages, %(dead)s dead", messages
    ) % {"hour": _hour(hour), "messages": f"{messages:,}", "dead": f"{dead:,}"}
    return Bar(messages, dead, words)
