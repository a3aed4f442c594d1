"""Schedules: what is due when, and the progress of each. They are declared in the settings and by consumers."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_dbqueue.admin import display
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.exceptions import DBQueueError
from django_dbqueue.models import Schedule
from django_dbqueue.models.fields import DbNow, UTCDateTimeField
from django_dbqueue.models.schedule import FORSAKEN_AFTER
from django_dbqueue.schedules import cron

if TYPE_CHECKING:

    class ShownSchedule(Schedule):
        """A schedule, with the database's clock."""

        db_now: datetime


@admin.register(Schedule)
class ScheduleAdmin(ReadOnlyAdmin):
    """By name; one that no worker declares any more is marked, and is no longer due."""

    list_display = ("name", "queue", "cron", "timezone", "next_due", "last_due", "last_message_id", "declared")
    ordering = ("name",)
    fields = list_display
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(db_now=DbNow(output_field=UTCDateTimeField()))

    def _is_forsaken(self, obj: ShownSchedule) -> bool:
        return bool(obj.db_now - obj.seen_at > FORSAKEN_AFTER)

    @admin.display(description=_("next due"))
    def next_due(self, obj: ShownSchedule) -> datetime | str | None:
        if self._is_forsaken(obj):
            return display.NOTHING
        try:
            return cron.read(obj.cron, obj.timezone).after(max(obj.last_due, obj.db_now))
        except DBQueueError:  # no library here to read it, or no valid expression: somebody wrote the row by SQL
            return display.NOTHING

    @admin.display(description=_("declared by a worker"))
    def declared(self, obj: ShownSchedule) -> str:
        return display.ago(obj.db_now - obj.seen_at)
