"""python -m benchmarks.queue [...]: what `bin/bench --queue` calls."""

from __future__ import annotations

import argparse
import platform
import sys
from importlib.metadata import version
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import command, report
from benchmarks.queue import contests, servers
from benchmarks.queue.processes import ChildFailed, together
from tests.servers.directory import own_directory
from tests.servers.private import ServerError

if TYPE_CHECKING:
    from benchmarks.race import Outcome


def main() -> int:
    command.unwind_when_stopped()
    options = _parser().parse_args()
    found: dict[str, tuple[str, list[Outcome]]] = {}
    failures: list[str] = []
    for database in options.database:
        try:
            server, outcomes, failed = _on(database, options)
        except (ServerError, ChildFailed) as error:
            failures.append(f"{database}: {error}")
            continue
        found[database] = (server, outcomes)
        failures += [f"{database}: {name}" for name in failed]
        if options.json:  # after each database: a later failure must not lose an earlier one's hour
            report.write_json(options.json, _about(options), found)
    command.show(options, found)
    for each in failures:
        print(f"FAILED: {each}", file=sys.stderr)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = command.parser("queue", contests=list(contests.CONTESTS), databases=servers.DATABASES)
    parser.add_argument("--tmpfs", action="store_true", help="data in memory, where a sync costs nothing")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page for the docs there")
    return parser


def _on(database: str, options: argparse.Namespace) -> tuple[str, list[Outcome], list[str]]:
    command.tell(f"{database}: starting")
    with (
        servers.database(database, tmpfs=options.tmpfs) as url,
        own_directory("bench", servers.parent(tmpfs=options.tmpfs)) as directory,
    ):
        rounds = command.rounds(options)
        [done] = together(1, contests.run, database, url, options.only, rounds, options.quick, directory)
    return done


def _about(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "quick": options.quick,
        "tmpfs": options.tmpfs,
        "cores": cpu_count(),
        "python": platform.python_version(),
        "django": version("django"),
    }


if __name__ == "__main__":
    sys.exit(main())
