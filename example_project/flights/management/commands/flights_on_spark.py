"""`manage.py flights_on_spark`: the departures into the queue through Spark, and their history out of it and back.

Each step is a job of `manage.py queue_pipeline`, and is printed before it runs; they share one session, since most of
a short job's time is the start of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from django_dbqueue.exceptions import SparkNotInstalled
from django_dbqueue.models import Message, QueueStatistic
from django_dbqueue.models.staged import PublishedJob
from django_dbqueue.spark.jobs.job_execution import refuse_without_spark, session
from example_project.flights.departures import ALERTS_QUEUE, DEPARTURES_QUEUE, FlightsFileError, choose_file, open_csv
from example_project.flights.ingest import open_totals
from example_project.flights.models import Ingest
from example_project.flights.on_spark import KEY, PAYLOAD, chart, table

from .ingest_flights import add_file_arguments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = 24
"""Roll-ups in the table, the last ones."""


class Command(BaseCommand):
    help = (
        "The flights on Spark. ingest: enqueues a message for each departure in the file, twice under the same name, "
        "so the second run adds nothing. history: moves ended messages into the archive and from there into a lake, "
        "computes and shows their statistics, and replays the dead letters."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("step", choices=("ingest", "history"))
        parser.add_argument("--lake", help="the lake's root, for history")
        add_file_arguments(parser)

    def handle(self, *_: Any, step: str, lake: str | None, file: str | None, full: bool, **__: Any) -> None:
        if step == "history" and lake is None:
            raise CommandError("history needs --lake, the directory to export to.")
        try:
            refuse_without_spark()
            path = choose_file(file=file, full=full)
            if step == "ingest" and not path.is_file():
                raise FlightsFileError(f"There is no file {path}.")
        except (SparkNotInstalled, FlightsFileError) as error:
            raise CommandError(str(error)) from error
        with session("flights", settings={"spark.sql.shuffle.partitions": "4"}) as spark:
            if step == "ingest":
                self._ingest(spark, path)
            else:
                self._history(str(lake))

    def _ingest(self, spark: SparkSession, path: Path) -> None:
        job = f"flights-{timezone.now():%Y%m%dT%H%M%S}"
        with _plain(path) as csv:
            rows = spark.read.csv(str(csv), header=True)
            found = {name: [row[0] for row in rows.select(name).distinct().collect()] for name in ("origin", "carrier")}
            open_totals(found["origin"], found["carrier"])
            source = ("--source", os.path.relpath(csv), "--format", "csv", "--option", "header=true")
            columns = ("--column", f"payload={PAYLOAD}", "--column", f"key={KEY}")
            for _ in range(2):
                self._job("ingest", *source, "--queue", DEPARTURES_QUEUE, "--job-id", job, *columns)
        published = PublishedJob.objects.get(name=job)
        Ingest.objects.create(source=path.name, created=published.created, updated=0, ignored=published.ignored)

    def _history(self, lake: str) -> None:
        moved = Message.objects.filter(queue__in=(DEPARTURES_QUEUE, ALERTS_QUEUE)).purge()
        self.stdout.write(f"{moved:,} ended messages were moved into the archive.")
        self._job("export", "--lake", lake, "--older-than", "0")
        self._job("statistics", "--lake", lake)
        cells = list(QueueStatistic.objects.order_by("-hour", "queue")[:SHOWN])[::-1]
        for line in ("", *table(cells), "", *chart(cells)):
            self.stdout.write(line)
        dead = ("--lake", lake, "--queue", DEPARTURES_QUEUE, "--only", "dead")
        self._job("replay", *dead, "--dry-run")
        name = ("--job-id", f"cancelled-{timezone.now():%Y%m%dT%H%M%S}")
        for _ in range(2):
            self._job("replay", *dead, *name)

    def _job(self, *arguments: str) -> None:
        shown = (f"{argument.partition('=')[0]}=…" if "(" in argument else argument for argument in arguments)
        self.stdout.write(f"\n$ manage.py queue_pipeline {' '.join(shown)}")
        call_command("queue_pipeline", *arguments, stdout=self.stdout)


@contextmanager
def _plain(path: Path) -> Iterator[Path]:
    """A file that Spark can read: .csv and .csv.gz as they are, the member of a .zip beside them."""
    if path.suffix != ".zip":
        yield path.resolve()
        return
    with TemporaryDirectory() as directory:
        copy = Path(directory) / "departures.csv"
        with open_csv(path) as text, copy.open("w", encoding="utf-8", newline="") as file:
            file.writelines(text)
        yield copy
