"""Read-only lists: what the consumers wrote is looked at here, never edited."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from .models import Aircraft, AirportDelay, AirportNotice, AirportReport, CarrierDelay, DelayNotice, Ingest


class ReadOnlyAdmin(admin.ModelAdmin):
    def has_add_permission(self, *_: Any) -> bool:
        return False

    def has_change_permission(self, *_: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any) -> bool:
        return False


@admin.register(AirportDelay)
class AirportDelayAdmin(ReadOnlyAdmin):
    list_display = ("airport", "departures", "late", "late_minutes", "early_minutes")


@admin.register(CarrierDelay)
class CarrierDelayAdmin(ReadOnlyAdmin):
    list_display = ("carrier", "departures", "late", "late_minutes", "early_minutes")


@admin.register(Aircraft)
class AircraftAdmin(ReadOnlyAdmin):
    list_display = ("tail_number", "departures", "trail")
    search_fields = ("tail_number",)


@admin.register(DelayNotice)
class DelayNoticeAdmin(ReadOnlyAdmin):
    list_display = ("departure", "origin", "minutes_late", "attempts", "sent_at")
    list_filter = ("origin", "attempts")
    search_fields = ("departure",)


@admin.register(AirportReport)
class AirportReportAdmin(ReadOnlyAdmin):
    list_display = ("airport", "flow", "departures", "cancelled", "attempts")


@admin.register(AirportNotice)
class AirportNoticeAdmin(ReadOnlyAdmin):
    list_display = ("airport", "flow", "called_at")


@admin.register(Ingest)
class IngestAdmin(ReadOnlyAdmin):
    list_display = ("source", "created", "updated", "ignored", "ingested_at")
