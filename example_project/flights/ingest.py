"""Enqueues a file of departures, all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from django.db import transaction

from django_dbqueue import Envelope
from django_dbqueue.models import Message

from .departures import DEPARTURES_QUEUE, Departure, read_departures
from .models import AirportDelay, CarrierDelay, Ingest


def ingest(path: Path) -> Ingest:
    """Enqueues each departure, and opens the totals that its consumer will add to, in one transaction.

    A departure whose message still waits or runs is ignored. One whose message is done is enqueued anew, and
    would be counted again: a key is free once its message has ended.
    """
    airports: set[str] = set()
    carriers: set[str] = set()

    def noted(departures: Iterable[Departure]) -> Iterator[Departure]:
        for departure in departures:
            airports.add(departure.origin)
            carriers.add(departure.carrier)
            yield departure

    with transaction.atomic():
        report = Message.objects.enqueue_many(
            (Envelope(departure.payload, key=departure.key) for departure in noted(read_departures(path))),
            queue=DEPARTURES_QUEUE,
        )
        open_totals(airports, carriers)
        return Ingest.objects.create(
            source=path.name, created=report.created, updated=report.updated, ignored=report.ignored
        )


def open_totals(airports: Iterable[str], carriers: Iterable[str]) -> None:
    """Makes the rows that the consumer adds to, where they aren't there yet."""
    AirportDelay.objects.bulk_create(
        [AirportDelay(airport=airport) for airport in sorted(airports)], ignore_conflicts=True
    )
    CarrierDelay.objects.bulk_create(
        [CarrierDelay(carrier=carrier) for carrier in sorted(carriers)], ignore_conflicts=True
    )
