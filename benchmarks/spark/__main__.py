"""python -m benchmarks.spark [...]: what `bin/bench --spark` calls."""

from __future__ import annotations

import argparse
import platform
import sys
from contextlib import contextmanager, suppress
from importlib.metadata import version
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import command, report
from benchmarks.command import announce, positive
from benchmarks.race import race
from benchmarks.servers import prepared
from tests.servers.directory import own_directory
from tests.servers.private import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.race import Outcome
    from benchmarks.spark.bench import Sizes

CONTESTS = ("read", "parquet", "write", "stream")
DATABASES = ("mariadb", "mysql", "postgres")


def main() -> int:
    command.unwind_when_stopped()
    options = _parser().parse_args()
    try:
        with (
            prepared(options.database),
            own_directory("bench") as directory,
            _session(options.jars, directory) as spark,
        ):
            found = {each: _on(each, spark, directory, options) for each in options.database}
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    command.show(options, found)
    if options.json:
        report.write_json(options.json, _about(options), found)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command.parser("spark", contests=CONTESTS, databases=DATABASES)
    parser.add_argument(
        "--rows", type=positive, help="rows in the table that is read; default 1,000,000, quick 100,000"
    )
    parser.add_argument("--jars", required=True, help=argparse.SUPPRESS)
    return parser


@contextmanager
def _session(jars: str, directory: Path) -> Iterator[Any]:
    from django_dbqueue.spark import build_session

    settings = {
        "spark.driver.memory": "2g",
        "spark.jars": jars,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    spark = build_session("benchmarks", master="local[2]", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        with suppress(Exception):  # a signal to the whole group has ended its JVM already
            spark.stop()


def _on(database: str, spark: Any, directory: Path, options: argparse.Namespace) -> tuple[str, list[Outcome]]:
    from django.db import connections

    from benchmarks.spark.bench import Bench
    from benchmarks.spark.reading import reading, reading_to_parquet
    from benchmarks.spark.streaming import streaming
    from benchmarks.spark.vendors import VENDORS
    from benchmarks.spark.writing import writing
    from django_dbqueue.management.spark_settings import credentials_of

    credentials = directory / f"{database}.json"
    credentials.touch(mode=0o600)
    credentials.write_text(credentials_of(database).to_json())
    home = directory / database
    home.mkdir()
    bench = Bench(spark, VENDORS[database](database), _sizes(options), home, credentials)
    announce(f"{database}: filling the tables")
    bench.fill_source()
    contests = {"read": reading, "parquet": reading_to_parquet, "write": writing, "stream": streaming}
    outcomes = [
        race(
            contests[name](bench),
            rounds=command.rounds(options),
            announce=lambda words: announce(f"{database}: {words}"),
        )
        for name in CONTESTS
        if name in options.only
    ]
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        return str(cursor.fetchone()[0]), outcomes


def _sizes(options: argparse.Namespace) -> Sizes:
    from benchmarks.spark.bench import Sizes

    if options.quick:
        return Sizes(read=options.rows or 100_000, write=40_000, stream=40_000, batch=20_000)
    return Sizes(read=options.rows or 1_000_000, write=200_000, stream=200_000, batch=20_000)


def _about(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "quick": options.quick,
        "cores": cpu_count(),
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "drivers": [Path(jar).resolve().name for jar in options.jars.split(",")],
    }


if __name__ == "__main__":
    sys.exit(main())
