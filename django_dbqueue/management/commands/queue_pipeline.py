"""``manage.py queue_pipeline <job>``: the pipeline on Spark, with the database from Django's settings."""

from __future__ import annotations

import os
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import connections

from django_dbqueue.checks.answers import is_in_memory
from django_dbqueue.management.common_options import chosen_alias
from django_dbqueue.management.console import EXIT_USAGE, TerminalCommand
from django_dbqueue.management.spark_settings import credentials_of, with_settings
from django_dbqueue.management.terminal_progress import shown_progress
from django_dbqueue.spark.jobs.arguments import config_of
from django_dbqueue.spark.jobs.config import JOBS, Job
from django_dbqueue.spark.jobs.job_execution import (
    EXIT_INTERRUPTED,
    EXIT_TERMINATED,
    Terminated,
    add_jobs,
    in_one_sentence,
    run_job,
    stop_signals,
)


class Command(TerminalCommand):
    """Run one job of the pipeline.

    Exit codes: 0 done; 1 failed, try again (the database was away, a row was refused), or Spark, Java or a driver is
    missing; 2 can't be done as asked; 130 stopped by SIGINT; 143 stopped by SIGTERM. A job that was stopped at any
    point can be run again.
    """

    help = "Run a job of the data pipeline: export, statistics, replay, ingest; and manage streams and readers."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_jobs(parser, _add_database)

    def handle(self, *_args: object, **options: Any) -> None:
        job = JOBS[options["job"]]
        alias = chosen_alias(options["database"])
        _refuse_memory(alias)
        try:
            with stop_signals(), _credentials_file(alias) as file, shown_progress() as progress:
                config = config_of(job.config, with_settings(options), credentials={"credentials_file": file})
                result = run_job(
                    job,
                    config,
                    master=options.get("master"),
                    settings=options.get("conf", ()),
                    progress=progress.show,
                    started=progress.watch,
                    ship_credentials=True,
                )
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)
        except Terminated:
            sys.exit(EXIT_TERMINATED)
        except Exception as error:
            if (failure := in_one_sentence(error)) is None:
                raise
            raise CommandError(failure[0], returncode=failure[1]) from error
        self.stdout.write(str(result))


def _add_database(parser: ArgumentParser, _job: Job) -> None:
    parser.add_argument("--database", help="alias of the database (default: DBQUEUE['DATABASE'], or the router's)")


def _refuse_memory(alias: str) -> None:
    connection = connections[alias]
    if is_in_memory(connection):
        raise CommandError(
            f"The database {alias!r} ({connection.settings_dict['NAME']}) lives in this process's memory, which the "
            "processes of Spark can't share: use a file.",
            returncode=EXIT_USAGE,
        )


@contextmanager
def _credentials_file(alias: str) -> Iterator[str]:
    """Write the credentials to a file that only this user can read, and remove it whatever happens."""
    text = credentials_of(alias).to_json()
    handle, name = tempfile.mkstemp(prefix="dbqueue-", suffix=".json")  # mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        yield name
    finally:
        Path(name).unlink(missing_ok=True)
