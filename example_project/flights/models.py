"""What the consumers write (totals and notices), and a line for each file that was enqueued."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class DelayTotals(models.Model):
    """Integers only, so that the order in which departures are counted can't show in a sum."""

    departures = models.PositiveIntegerField(default=0)
    late = models.PositiveIntegerField(default=0, help_text="Departures that left after their scheduled time.")
    late_minutes = models.PositiveBigIntegerField(default=0, help_text="Sum over the late ones.")
    early_minutes = models.PositiveBigIntegerField(default=0, help_text="Sum over those that left early.")

    class Meta:
        abstract = True


class AirportDelay(DelayTotals):
    airport = models.CharField(max_length=3, unique=True)

    class Meta:
        ordering: ClassVar = ["airport"]
        verbose_name = "airport's delays"
        verbose_name_plural = "delays by airport"

    def __str__(self) -> str:
        return self.airport


class CarrierDelay(DelayTotals):
    carrier = models.CharField(max_length=2, unique=True)

    class Meta:
        ordering: ClassVar = ["carrier"]
        verbose_name = "carrier's delays"
        verbose_name_plural = "delays by carrier"

    def __str__(self) -> str:
        return self.carrier


class Aircraft(models.Model):
    """What the departures of one aircraft have come to. Another order of them would give another trail."""

    tail_number = models.CharField(max_length=10, unique=True)
    departures = models.PositiveIntegerField(default=0)
    trail = models.CharField(max_length=64, default="", help_text="A hash of the trail before it and the departure.")

    class Meta:
        ordering: ClassVar = ["tail_number"]
        verbose_name_plural = "aircraft"

    def __str__(self) -> str:
        return self.tail_number


class DelayNotice(models.Model):
    """A notice of a long delay that the (pretended) notice service accepted."""

    departure = models.CharField(max_length=40, unique=True, help_text="Carrier, flight, date and scheduled time.")
    origin = models.CharField(max_length=3)
    minutes_late = models.PositiveIntegerField()
    attempts = models.PositiveSmallIntegerField(help_text="Deliveries that it took; more than 1 is a retry.")
    sent_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["-minutes_late", "departure"]

    def __str__(self) -> str:
        return f"{self.departure}: {self.minutes_late} minutes late"


class AirportReport(models.Model):
    """Where the flow of an airport's file leads. Opened with the flow, and filled in by its last message."""

    airport = models.CharField(max_length=3)
    flow = models.BigIntegerField(unique=True, help_text="Number of the flow.")
    departures = models.PositiveIntegerField(null=True, help_text="Those that took place.")
    cancelled = models.PositiveIntegerField(null=True)
    attempts = models.PositiveSmallIntegerField(null=True, help_text="Deliveries that the report took.")

    class Meta:
        ordering: ClassVar = ["airport", "flow"]

    def __str__(self) -> str:
        return f"{self.airport}, flow #{self.flow}"


class AirportNotice(models.Model):
    """A call about an airport that reached the (pretended) notice service: its memory, and not that of the flow."""

    airport = models.CharField(max_length=3)
    flow = models.BigIntegerField()
    called_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["airport", "id"]

    def __str__(self) -> str:
        return f"{self.airport} at {self.called_at:%Y-%m-%d %H:%M}"


class Ingest(models.Model):
    """One file that was enqueued, and what became of its rows. Commits together with the messages."""

    source = models.CharField(max_length=200, help_text="Name of the file.")
    created = models.PositiveIntegerField()
    updated = models.PositiveIntegerField()
    ignored = models.PositiveIntegerField(help_text="Departures whose message was already waiting.")
    ingested_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.source} at {self.ingested_at:%Y-%m-%d %H:%M}"
