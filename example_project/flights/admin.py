"""Read-only lists: what the consumers wrote is looked at here, never edited."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from .models import AirportDelay, CarrierDelay, DelayNotice, Ingest


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


@admin.register(DelayNotice)
class DelayNoticeAdmin(ReadOnlyAdmin):
    list_display = ("departure", "origin", "minutes_late", "attempts", "sent_at")
    list_filter = ("origin", "attempts")
    search_fields = ("departure",)


@admin.register(Ingest)
class IngestAdmin(ReadOnlyAdmin):
    list_display = ("source", "created", "updated", "ignored", "ingested_at")
