"""Workers: the rows that their processes beat."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from django_dbqueue.admin import display
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow, UTCDateTimeField

if TYPE_CHECKING:

    class ShownWorker(Worker):
        """A worker, with the database's clock."""

        db_now: datetime


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Which workers are running, and which have stopped sending heartbeats; the most recent beat first."""

    list_display = ("process", "beats", "last_beat", "serves", "threads", "held", "conn_id", "runs_for")
    ordering = ("-beat_at", "id")
    fields = (
        "process",
        "beats",
        "last_beat",
        "serves",
        "threads",
        "held",
        "running",
        "conn_id",
        "started_at",
        "beat_at",
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(db_now=DbNow(output_field=UTCDateTimeField()))

    @admin.display(description=_("worker"))
    def process(self, obj: ShownWorker) -> str:
        return str(obj)

    @admin.display(description=_("beats"))
    def beats(self, obj: ShownWorker) -> str:
        return display.beat_badge(obj, obj.db_now)

    @admin.display(description=_("last beat"))
    def last_beat(self, obj: ShownWorker) -> str:
        return display.ago(obj.db_now - obj.beat_at)

    @admin.display(description=_("queues"))
    def serves(self, obj: ShownWorker) -> str:
        return ", ".join(obj.queues.split(","))

    @admin.display(description=_("messages that run"))
    def running(self, obj: ShownWorker) -> SafeString:
        """Return links to what runs in its queues, with the owner of each, where it can be cancelled."""
        page = reverse("admin:django_dbqueue_message_changelist", current_app=self.admin_site.name)
        links = ((page, urlencode({"state": "running", "queue": queue}), queue) for queue in obj.queues.split(","))
        return format_html_join(", ", '<a href="{}?{}">{}</a>', links)

    @admin.display(description=_("runs for"))
    def runs_for(self, obj: ShownWorker) -> str:
        return display.span(obj.db_now - obj.started_at)
