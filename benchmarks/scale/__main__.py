"""python -m benchmarks.scale [...]: what `bin/bench --scale` calls."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import command
from benchmarks.command import announce, positive
from benchmarks.queue.servers import parent
from benchmarks.scale import places
from benchmarks.scale.places import DATABASES, alias_of
from tests.servers.directory import own_directory
from tests.servers.private import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.scale.account import Account
    from benchmarks.scale.jobs import Job, Site

ROWS: Final = [1_000_000, 3_000_000, 10_000_000, 100_000_000]
LAKES: Final = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000]
QUICK_ROWS: Final = [200_000, 400_000, 800_000]
QUICK_LAKES: Final = [1_000_000, 2_000_000, 5_000_000]
STEPS: Final = 200_000
JOBS: Final = (
    "export", "statistics", "archive", "follow", "read ids", "read hours", "replay", "compact", "status", "doctor",
    "erase", "replay a day", "read an hour",
)  # fmt: skip


def main() -> int:
    options = _parser().parse_args()
    rows = sorted(options.rows or (QUICK_ROWS if options.quick else ROWS))
    lakes = sorted(options.lakes or (QUICK_LAKES if options.quick else LAKES))
    if len(set(rows)) < 3 or len(set(lakes)) < 3:
        print(
            "Give three sizes or more: the model is fitted to all but the largest, which it foretells.", file=sys.stderr
        )
        return 2
    command.unwind_when_stopped()
    found: list[Account] = []
    try:
        with ExitStack() as stack:
            url = options.server or stack.enter_context(places.server(options.database))
            stack.enter_context(places.databases(url, rows, lakes, prefix="dbqueue_scale" if options.server else ""))
            home = stack.enter_context(own_directory("scale", parent(tmpfs=False)))
            spark = stack.enter_context(_session(home))
            found += _with_histories(options, spark, home, rows)
            found += _with_lakes(options, spark, home, lakes)
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps([each.as_json() for each in found], indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="bin/bench --scale", allow_abbrev=False)
    made.add_argument("--database", choices=DATABASES, default="mariadb")
    made.add_argument("--rows", type=_sizes, metavar="N[,N]", help="rows of the histories, at least three sizes")
    made.add_argument("--lakes", type=_sizes, metavar="N[,N]", help="rows that the lakes stand for")
    made.add_argument("--only", type=command.names(JOBS), default=list(JOBS), metavar="JOB[,JOB]")
    made.add_argument("--rounds", type=positive, default=3, help="rounds that count; default 3")
    made.add_argument("--quick", action="store_true", help="only checks that it runs: small histories, one round")
    made.add_argument("--server", metavar="URL", help="a server that nobody else uses; the histories stay there")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every account to this file")
    return made


def _sizes(text: str) -> list[int]:
    found = [positive(each) for each in text.split(",")]
    if wrong := [each for each in found if each % STEPS]:
        raise argparse.ArgumentTypeError(f"{wrong[0]:,} is no multiple of {STEPS:,}: a history ends with an hour")
    return found


@contextmanager
def _session(home: Path) -> Iterator[Any]:
    from django_dbqueue.spark import build_session

    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }
    spark = build_session("scale", master="local[2]", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        with suppress(Exception):  # a signal to the whole group has ended its JVM already
            spark.stop()


def _with_histories(options: argparse.Namespace, spark: Any, home: Path, sizes: Sequence[int]) -> list[Account]:
    from benchmarks.scale import filling
    from benchmarks.scale.jobs import JOBS as HISTORY_JOBS
    from benchmarks.scale.jobs import Site, begin

    if not (wanted := [job for job in HISTORY_JOBS if job.name in options.only]):
        return []
    sites = []
    for rows in sizes:
        alias = alias_of(rows)
        if not options.server:
            filling.require_room(home, rows)
        filling.fill(alias, rows, announce)
        filling.forget_earlier_runs(alias)
        sites.append(Site(alias, rows, spark, *_own(home, alias)))
        begin(sites[-1])
    return _run(options, wanted, sites)


def _with_lakes(options: argparse.Namespace, spark: Any, home: Path, sizes: Sequence[int]) -> list[Account]:
    from benchmarks.scale import filling, lakes
    from benchmarks.scale.jobs import LAKE_JOBS, LATE, Site, begin

    if not (wanted := [job for job in LAKE_JOBS if job.name in options.only]):
        return []
    sites = []
    for rows in sizes:
        alias = alias_of(rows, in_a_lake=True)
        place, credentials = _own(home, alias)
        files = lakes.make(alias, str(place / "lake"), rows)
        announce(f"a lake of {files:,} files, for {rows:,} rows")
        filling.fill(alias, rows + LATE, announce, first=rows + 1)
        sites.append(Site(alias, rows + LATE, spark, place, credentials, files))
        begin(sites[-1])
    return _run(options, wanted, sites)


def _own(home: Path, alias: str) -> tuple[Path, str]:
    """A directory of a history's own, and the file with its credentials, which lies elsewhere."""
    from django_dbqueue.management.spark_settings import credentials_of

    place, credentials = home / alias, home / f"{alias}.json"
    place.mkdir()
    credentials.touch(mode=0o600)
    credentials.write_text(credentials_of(alias).to_json())
    return place, str(credentials)


def _run(options: argparse.Namespace, jobs: Sequence[Job], sites: Sequence[Site]) -> list[Account]:
    from benchmarks.scale import rounds, tables
    from benchmarks.scale.counters import counters
    from benchmarks.scale.memory import Memory

    with ExitStack() as stack:
        there = [(site, stack.enter_context(counters(places.url_of(site.alias)))) for site in sites]
        memory = Memory(sites[0].spark)
        found = rounds.run(jobs, there, memory, 1 if options.quick else options.rounds, announce)
    print(f"\n{tables.measured(jobs, found)}\n\n{tables.foretold(jobs, found, {s.rows: s.files for s in sites})}")
    return found


if __name__ == "__main__":
    sys.exit(main())
