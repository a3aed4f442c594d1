"""python -m benchmarks [...]: what `bin/bench` calls."""

from __future__ import annotations

import argparse
import platform
import signal
import sys
from contextlib import contextmanager, suppress
from importlib.metadata import version
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import report
from benchmarks.race import race
from benchmarks.servers import prepared
from tests.servers.directory import own_directory
from tests.servers.private import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.race import Outcome
    from benchmarks.spark.bench import Sizes

CONTESTS = ("read", "parquet", "write", "stream")
DATABASES = ("mariadb", "mysql")


def main() -> int:
    # A stop signal unwinds the stack, and every server with it.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    options = _parser().parse_args()
    try:
        with prepared(options.database), own_directory("bench") as directory, _session(options.jar, directory) as spark:
            found = {each: _on(each, spark, directory, options) for each in options.database}
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    for name, (server, outcomes) in found.items():
        print(f"\n{name} {server}\n\n{report.table(outcomes)}\n\n{report.verdicts(outcomes)}")
    if options.quick:
        print("\nThis was --quick: too few rows and rounds to judge by.")
    if options.json:
        report.write_json(options.json, _about(options), found)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bin/bench", allow_abbrev=False)
    parser.add_argument("--spark", action="store_true", required=True, help="the pipeline on Spark")
    parser.add_argument("--only", type=_names(CONTESTS), default=list(CONTESTS), metavar="CONTEST[,CONTEST]")
    parser.add_argument("--database", type=_names(DATABASES), default=list(DATABASES), metavar="DB[,DB]")
    parser.add_argument("--rounds", type=_positive, help="that count; default 5, quick 2")
    parser.add_argument("--rows", type=_positive, help="in the table that is read; default 1,000,000, quick 100,000")
    parser.add_argument("--quick", action="store_true", help="a look at whether it runs, in a few minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round there")
    parser.add_argument("--jar", required=True, help=argparse.SUPPRESS)
    return parser


def _names(known: tuple[str, ...]) -> Any:
    def names(text: str) -> list[str]:
        if unknown := set(text.split(",")) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: there are {', '.join(known)}")
        return text.split(",")

    return names


def _positive(text: str) -> int:
    if not text.replace("_", "").isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


@contextmanager
def _session(jar: str, directory: Path) -> Iterator[Any]:
    from django_dbqueue.spark import build_session

    settings = {
        "spark.driver.memory": "2g",
        "spark.jars": jar,
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
    from benchmarks.spark.writing import writing
    from django_dbqueue.management.pipeline import credentials_of

    credentials = directory / f"{database}.json"
    credentials.touch(mode=0o600)
    credentials.write_text(credentials_of(database).to_json())
    home = directory / database
    home.mkdir()
    bench = Bench(spark, database, _sizes(options), home, credentials)
    _tell(f"{database}: filling the tables")
    bench.fill_source()
    contests = {"read": reading, "parquet": reading_to_parquet, "write": writing, "stream": streaming}
    rounds = options.rounds or (2 if options.quick else 5)
    outcomes = [
        race(contests[name](bench), rounds=rounds, tell=lambda words: _tell(f"{database}: {words}"))
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
        "driver": Path(options.jar).resolve().name,
    }


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
