"""`manage.py reset_flights`: back to before the first ingest."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from django_dbqueue.models import Message
from example_project.flights.departures import QUEUES
from example_project.flights.models import (
    Aircraft,
    AirportDelay,
    AirportNotice,
    AirportReport,
    CarrierDelay,
    DelayNotice,
    Ingest,
)


class Command(BaseCommand):
    help = (
        "Removes what earlier ingests left behind: the messages of the example's queues move into the history, and "
        "the totals, reports and notices are deleted. Changes nothing while a message is being processed, or "
        "if no ingest was recorded."
    )

    def handle(self, *_: Any, **__: Any) -> None:
        messages = Message.objects.filter(queue__in=QUEUES)
        if not Ingest.objects.exists():
            if messages.exists():
                raise CommandError(
                    f"There are messages in {', '.join(QUEUES)}, and none of them came from ingest_flights. "
                    "They were left alone: use another database."
                )
            return
        for queue in QUEUES:
            if Message.objects.running(queue).exists():
                raise CommandError(f"A worker is busy with {queue}: stop it first. Nothing was changed.")

        messages.drop_all("reset_flights")
        moved = messages.purge()
        # The ingests go last, with the totals: whatever stops this command before, it can be run again.
        with transaction.atomic():
            for model in (DelayNotice, AirportNotice, AirportReport, Aircraft, AirportDelay, CarrierDelay, Ingest):
                model.objects.all().delete()
        self.stdout.write(
            f"Removed what an earlier run left behind: {moved:,} messages went into the history, and the totals were "
            "deleted."
        )
