"""`manage.py flights_report`: what became of the departures, and whether the totals are those of the file."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Count, Max, Min, Sum

from django_dbqueue.models import Message
from example_project.flights import accounts
from example_project.flights.departures import (
    ALERTS_QUEUE,
    DEPARTURES_QUEUE,
    QUEUES,
    FlightsFileError,
    choose_file,
)
from example_project.flights.models import AirportDelay, AirportNotice, AirportReport, Ingest

from .ingest_flights import add_file_arguments


class Command(BaseCommand):
    help = (
        "Prints what happened to the departures, and compares the totals with those computed directly from the file. "
        "Fails if they differ, and lists each difference."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_file_arguments(parser)

    def handle(self, *_: Any, file: str | None, full: bool, **__: Any) -> None:
        try:
            expected = accounts.from_file(choose_file(file=file, full=full))
        except FlightsFileError as error:
            raise CommandError(str(error)) from error

        dead = Message.objects.dead(DEPARTURES_QUEUE).count()
        self._write_queues(dead)
        self._write_airports()
        self._refuse_if_unfinished()

        found = accounts.from_database(cancelled=dead)
        differences = found.differences(expected)
        if differences:
            raise CommandError("The totals differ from those of the CSV file:\n  " + "\n  ".join(differences))
        self.stdout.write("")
        self.stdout.write(
            self.style.SUCCESS(
                f"The totals equal those computed directly from the CSV file: {expected.departures:,} departures, "
                f"{expected.late_minutes:,} minutes late, {len(expected.airports)} airports, "
                f"{len(expected.carriers)} carriers, {expected.notices:,} delay notices, {expected.cancelled:,} "
                "cancelled."
            )
        )
        if found.aircraft:
            self.stdout.write(
                self.style.SUCCESS(
                    f"{len(found.aircraft):,} aircraft, beside one another, and the departures of each in the order of "
                    "the file."
                )
            )
        self._write_flows()

    def _write_queues(self, dead: int) -> None:
        done = Message.objects.done(DEPARTURES_QUEUE).count()
        ignored = Ingest.objects.aggregate(sum=Sum("ignored"))["sum"] or 0
        queues = QUEUES if AirportReport.objects.exists() else (DEPARTURES_QUEUE, ALERTS_QUEUE)
        rows = [("queue", "done", "retried", "dead", "ignored")]
        for queue in queues:
            is_of_departures = queue == DEPARTURES_QUEUE
            rows.append(
                (
                    queue,
                    f"{done if is_of_departures else Message.objects.done(queue).count():,}",
                    f"{Message.objects.filter(queue=queue, read_count__gt=1).count():,}",
                    f"{dead if is_of_departures else Message.objects.dead(queue).count():,}",
                    f"{ignored:,}" if is_of_departures else "-",
                )
            )
        width = max(map(len, queues)) + 2
        for name, *numbers in rows:
            self.stdout.write(f"{name:<{width}}" + "".join(f"{number:>10}" for number in numbers))

        span = Message.objects.filter(queue=DEPARTURES_QUEUE, finished_at__isnull=False).aggregate(
            first=Min("claimed_at"), last=Max("finished_at")
        )
        if span["first"] is not None and span["last"] is not None:
            seconds = (span["last"] - span["first"]).total_seconds()
            rate = (done + dead) / max(seconds, 0.001)
            self.stdout.write(
                f"\n{done + dead:,} departures in {seconds:.1f} s: {rate:,.0f} messages a second,"
                " counted a hundred at once, each exactly once."
            )

    def _write_airports(self) -> None:
        self.stdout.write("")
        for row in AirportDelay.objects.all():
            mean = row.late_minutes / row.late if row.late else 0
            self.stdout.write(
                f"{row.airport}  {row.departures:>8,} departures  {row.late:>8,} late, by {mean:.0f} minutes on average"
            )

    def _write_flows(self) -> None:
        made = AirportReport.objects.aggregate(reports=Count("id"), deliveries=Sum("attempts"))
        if made["reports"]:
            self.stdout.write(
                self.style.SUCCESS(
                    f"{made['reports']:,} flows, one for each airport's file, each with its report: delivered "
                    f"{made['deliveries']:,} times, and in a step the notice service was called "
                    f"{AirportNotice.objects.count():,} times, once for each."
                )
            )

    def _refuse_if_unfinished(self) -> None:
        for queue in QUEUES:
            for state in ("ready", "waiting", "delayed", "running", "stuck"):
                count = getattr(Message.objects, state)(queue).count()
                if count:
                    raise CommandError(
                        f"{count:,} messages in {queue} are still {state}:"
                        " let manage.py run_queue_worker --drain finish them first."
                    )
