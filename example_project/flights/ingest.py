"""Enqueues a file of departures, each airport's as a flow: all of it or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from django.db import transaction

from django_dbqueue import DuplicateKey, Envelope, flow

from .departures import COUNTS_QUEUE, DEPARTURES_QUEUE, REPORTS_QUEUE, Departure, FlightsFileError, read_departures
from .models import Aircraft, AirportDelay, AirportReport, CarrierDelay, Ingest

MOST_IN_A_FLOW = 100_000
"""Departures that one count can wait for."""


def ingest(path: Path) -> Ingest:
    """Sends each airport's departures as a flow, and opens the totals that their consumer will add to, all at once.

    In a flow, a count comes after the departures, and a report after the count. If one of its departures still waits
    or runs, its key refuses the whole flow, which is ignored. Once all of them have ended, their keys are free: they
    would be enqueued anew, and counted again.
    """
    airports: Counter[str] = Counter()
    carriers: set[str] = set()
    aircraft: set[str] = set()
    keys: set[str] = set()
    for departure in read_departures(path):
        if departure.key in keys:
            raise FlightsFileError(f"{path} has the departure {departure.key} twice.")
        keys.add(departure.key)
        airports[departure.origin] += 1
        carriers.add(departure.carrier)
        if departure.tail_number is not None:
            aircraft.add(departure.tail_number)

    with transaction.atomic():
        created = sum(_send(path, airport) for airport in sorted(airports))
        open_totals(airports, carriers, aircraft)
        return Ingest.objects.create(source=path.name, created=created, updated=0, ignored=airports.total() - created)


def _send(path: Path, airport: str) -> int:
    """Sends an airport's departures; returns how many. An airport with very many has more than one flow."""
    departures = (each for each in read_departures(path) if each.origin == airport)
    sent = 0
    while some := list(islice(departures, MOST_IN_A_FLOW)):
        with suppress(DuplicateKey):
            sent += _send_flow(airport, some)
    return sent


def _send_flow(airport: str, departures: list[Departure]) -> int:
    with flow(f"departures of {airport}") as f:
        sent = f.enqueue_many(
            (Envelope(each.payload, key=each.key, group=each.tail_number) for each in departures),
            queue=DEPARTURES_QUEUE,
        )
        # Finished, not done: the cancelled ones are dead letters, and the count shall not wait for them.
        counted = f.enqueue({"airport": airport}, queue=COUNTS_QUEUE, after=sent, when="finished")
        f.enqueue({"airport": airport}, queue=REPORTS_QUEUE, after=counted)
        AirportReport.objects.create(airport=airport, flow=f.id)
    return sent.messages


def open_totals(airports: Iterable[str], carriers: Iterable[str], aircraft: Iterable[str] = ()) -> None:
    """Makes the rows that the consumer adds to, where they aren't there yet."""
    Aircraft.objects.bulk_create(
        [Aircraft(tail_number=number) for number in sorted(aircraft)], ignore_conflicts=True, batch_size=1_000
    )
    AirportDelay.objects.bulk_create(
        [AirportDelay(airport=airport) for airport in sorted(airports)], ignore_conflicts=True
    )
    CarrierDelay.objects.bulk_create(
        [CarrierDelay(carrier=carrier) for carrier in sorted(carriers)], ignore_conflicts=True
    )
