"""What the pipeline on Spark keeps here: streams and their claims, history readers, and exports. Read-only.

Each list shows the newest that an index finds, up to a list's cap.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django.contrib import admin
from django.db.models import Count, Max, Min, Model, Sum
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_dbqueue.admin import display
from django_dbqueue.admin.bounded_lists import CELL_CAP, LIST_CAP, BoundedChangeList
from django_dbqueue.admin.readonly import ReadOnlyAdmin
from django_dbqueue.history.history_sql import DROPPED, PLANNED, PURGED, REWRITE, VERIFIED
from django_dbqueue.models import ArchivedMessage, ExportBatch, HistoryReader, Stream, StreamClaim, StreamProgress
from django_dbqueue.models.fields import AsciiField, DbNow, UTCDateTimeField
from django_dbqueue.models.stream import UNFINISHED
from django_dbqueue.states.counts import Capped, grouped, total_of
from django_dbqueue.states.depths import depths
from django_dbqueue.states.stream_claim_states import ACKED, FREED, FREEING, OPEN
from django_dbqueue.streams.backlog import MOST_COUNTED
from django_dbqueue.streams.ownership import is_running
from django_dbqueue.streams.stream_progress_sql import READER, STREAM

CLAIM_STATES: Final = {
    OPEN: ("running", "▶", gettext_lazy("open")),
    FREEING: ("stuck", "…", gettext_lazy("being released")),
    ACKED: ("done", "✓", gettext_lazy("done")),
    FREED: ("dropped", "↩", gettext_lazy("released")),
}
EXPORT_STATES: Final = {
    PLANNED: ("delayed", "…", gettext_lazy("planned")),
    VERIFIED: ("ready", "✓", gettext_lazy("verified")),
    PURGED: ("done", "✓", gettext_lazy("verified, and purged here")),
    DROPPED: ("dropped", "–", gettext_lazy("abandoned")),
    REWRITE: ("done", "↻", gettext_lazy("files rewritten")),
}
UNKNOWN: Final = ("dropped", "?")
LEFT: Final = ("ready", "waiting")
"""The states of what is left in the queue of a stream."""

if TYPE_CHECKING:

    class ShownStream(Stream):
        """A stream, with the database's clock, what its claims hold, and what its queue has left."""

        db_now: datetime
        ledger: dict[str, Any]
        left: Capped
        is_run: bool
        progress: StreamProgress | None

    class ShownClaim(StreamClaim):
        """A claim, with the database's clock."""

        db_now: datetime

    class ShownReader(HistoryReader):
        """A reader, with the database's clock and its distance from the end."""

        db_now: datetime
        ids_behind: int
        progress: StreamProgress | None


class NewestChangeList(BoundedChangeList):
    """By primary key: the newest first if it is a number, by name if it is one; or the numbers of one name."""

    heavy: tuple[str, ...] = ()

    def find_ids(self, request: HttpRequest) -> list[Any]:
        rows, name = self.root_queryset, self.query.strip()
        if name and self.search_fields:
            field = self.search_fields[0]
            if isinstance(self.model._meta.get_field(field), AsciiField) and not name.isascii():
                return []  # MySQL refuses to compare them
            rows = rows.filter(**{field: name}).order_by("-number")
        else:
            rows = rows.order_by(*self.get_ordering(request, rows))
        return list(rows.values_list("pk", flat=True)[: LIST_CAP + 1])


class ClaimChangeList(NewestChangeList):
    """Without the ids, which may be many."""

    heavy = ("ids",)


class PipelineAdmin(ReadOnlyAdmin):
    """Rows with the database's clock; a row's page has the list's fields, and some more."""

    change_list_template = "admin/django_dbqueue/newest.html"
    list_per_page = 50
    ordering: ClassVar[tuple[str, ...]] = ("-id",)
    besides: tuple[str, ...] = ()

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[NewestChangeList]:  # noqa: ARG002
        return NewestChangeList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"cap": LIST_CAP, **(extra_context or {})})

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist: Any = super().get_changelist_instance(request)
        self.fill_rows(changelist.result_list)
        return changelist

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            self.fill_rows([row])
        return row

    def fill_rows(self, rows: list[Any]) -> None:
        """Give each row what other tables hold about it."""

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(db_now=DbNow(output_field=UTCDateTimeField()))

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:  # noqa: ARG002
        return [*self.list_display, *self.besides]


class ProgressAdmin(PipelineAdmin):
    """With what a ``QueueListener`` has recorded about the query, if it has one."""

    prefix = ""
    figures: ClassVar[tuple[str, ...]] = ("speed", "last_batch", "failure")
    figures_besides: ClassVar[tuple[str, ...]] = ("messages_read", "error_block")

    def fill_rows(self, rows: list[Any]) -> None:
        found = StreamProgress.objects.using(self.alias).in_bulk([self.prefix + row.pk for row in rows])
        for row in rows:
            row.progress = found.get(self.prefix + row.pk)

    @admin.display(description=gettext_lazy("messages per second"))
    def speed(self, obj: Any) -> str:
        return display.NOTHING if obj.progress is None else grouped(round(obj.progress.rate))

    @admin.display(description=gettext_lazy("last batch"))
    def last_batch(self, obj: Any) -> str:
        return display.NOTHING if obj.progress is None else display.ago(obj.db_now - obj.progress.progressed_at)

    @admin.display(description=gettext_lazy("last failure"))
    def failure(self, obj: Any) -> str:
        if obj.progress is None or obj.progress.failed_at is None:
            return display.NOTHING
        when = display.ago(obj.db_now - obj.progress.failed_at)
        return display.badge("dead", "✕", when) if obj.progress.is_failing else when

    @admin.display(description=gettext_lazy("messages read"))
    def messages_read(self, obj: Any) -> str:
        return display.NOTHING if obj.progress is None else grouped(obj.progress.messages)

    @admin.display(description=gettext_lazy("error"))
    def error_block(self, obj: Any) -> str:
        if obj.progress is None or obj.progress.error is None:
            return display.NOTHING
        return display.block(obj.progress.error)


@admin.register(Stream)
class StreamAdmin(ProgressAdmin):
    """Whether a query runs each stream, what its unfinished claims hold, and what is left in its queue."""

    list_display = ("name", "queue", "runs", "backlog", *ProgressAdmin.figures, "held")
    ordering = ("name",)
    besides = (
        *("runner", "last_beat", "claims", "lease_left", "last_number", "on_expired", "lease_seconds", "run"),
        *("conn_id", "begun_at", "beat_at", *ProgressAdmin.figures_besides),
    )
    prefix = STREAM

    def fill_rows(self, rows: list[ShownStream]) -> None:
        super().fill_rows(rows)
        unfinished = StreamClaim.objects.using(self.alias).filter(state__in=UNFINISHED)
        of = unfinished.filter(stream__in=[row.pk for row in rows]).values("stream")
        found = {each["stream"]: each for each in of.annotate(Count("id"), Sum("messages"), Min("lease_until"))}
        queues = {row.queue for row in rows}
        cap = max(CELL_CAP, MOST_COUNTED // max(1, len(queues)))
        counts = {name: each.counts for name, each in depths(self.session, queues, states=LEFT, cap=cap).items()}
        for row in rows:
            row.left = total_of(counts[row.queue].values())
            row.ledger = found.get(row.pk, {})
            row.is_run = row.run is not None and is_running(self.session, row.pk)

    @admin.display(description=gettext_lazy("query"))
    def runs(self, obj: ShownStream) -> str:
        if obj.is_run:
            return display.badge("alive", "♥", _("runs"))
        return display.badge("silent", "✕", _("not running"))

    @admin.display(description=gettext_lazy("last beat"))
    def last_beat(self, obj: ShownStream) -> str:
        return display.ago(obj.db_now - obj.beat_at)

    @admin.display(description=gettext_lazy("unfinished claims"))
    def claims(self, obj: ShownStream) -> int:
        return int(obj.ledger.get("id__count") or 0)

    @admin.display(description=gettext_lazy("messages held"))
    def held(self, obj: ShownStream) -> int:
        return int(obj.ledger.get("messages__sum") or 0)

    @admin.display(description=gettext_lazy("backlog"))
    def backlog(self, obj: ShownStream) -> str:
        return str(obj.left)

    @admin.display(description=gettext_lazy("first lease"))
    def lease_left(self, obj: ShownStream) -> str:
        return _lease(obj.ledger.get("lease_until__min"), obj.db_now)


@admin.register(StreamClaim)
class StreamClaimAdmin(PipelineAdmin):
    """The newest claims, of all streams or of one."""

    list_display = ("__str__", "queue", "state_badge", "messages", "attempts", "lease_left", "claimed_at", "ended_at")
    search_fields = ("stream",)  # NewestChangeList does the search
    search_help_text = gettext_lazy("The whole name of a stream.")
    besides = ("claim_token", "run", "lease_until", "ids_block")

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[ClaimChangeList]:  # noqa: ARG002
        return ClaimChangeList

    @admin.display(description=gettext_lazy("state"))
    def state_badge(self, obj: ShownClaim) -> str:
        return display.badge(*CLAIM_STATES.get(obj.state, (*UNKNOWN, obj.state)))

    @admin.display(description=gettext_lazy("lease"))
    def lease_left(self, obj: ShownClaim) -> str:
        return _lease(obj.lease_until if obj.state in UNFINISHED else None, obj.db_now)

    @admin.display(description=gettext_lazy("ids of the messages"))
    def ids_block(self, obj: ShownClaim) -> str:
        return display.block(obj.ids)


@admin.register(HistoryReader)
class HistoryReaderAdmin(ProgressAdmin):
    """How far each is behind the end of the history: nothing is purged past the slowest."""

    list_display = ("name", "position", "behind", "last_seen", "begun_at", *ProgressAdmin.figures)
    ordering = ("name",)
    besides = ("seen_at", *ProgressAdmin.figures_besides)
    prefix = READER

    def fill_rows(self, rows: list[ShownReader]) -> None:
        super().fill_rows(rows)
        end = ArchivedMessage.objects.using(self.alias).aggregate(end=Max("id"))["end"] or 0
        for row in rows:
            row.ids_behind = max(0, end - row.position)

    @admin.display(description=gettext_lazy("ids behind the end"))
    def behind(self, obj: ShownReader) -> str:
        return grouped(obj.ids_behind)

    @admin.display(description=gettext_lazy("last seen"))
    def last_seen(self, obj: ShownReader) -> str:
        return display.ago(obj.db_now - obj.seen_at)


@admin.register(ExportBatch)
class ExportBatchAdmin(PipelineAdmin):
    """The newest batches, of all lakes or of one."""

    list_display = ("__str__", "state_badge", "first_id", "last_id", "rows", "planned_at", "verified_at", "purged_at")
    search_fields = ("lake",)
    search_help_text = gettext_lazy("The whole name of a lake.")
    besides = ("purged_to",)

    @admin.display(description=gettext_lazy("state"))
    def state_badge(self, obj: ExportBatch) -> str:
        return display.badge(*EXPORT_STATES.get(obj.state, (*UNKNOWN, obj.state)))


def _lease(until: datetime | None, now: datetime) -> str:
    if until is None:
        return display.NOTHING
    if until <= now:
        return _("expired %(span)s ago") % {"span": display.span(now - until)}
    return _("expires in %(span)s") % {"span": display.span(until - now)}
