"""python -m benchmarks.queue [...]: what `bin/bench --queue` calls."""

from __future__ import annotations

import argparse
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import command, report
from benchmarks.queue import contests, servers
from benchmarks.queue.contests import Order
from benchmarks.queue.page import Page
from benchmarks.queue.processes import ChildFailed, together
from tests.servers.directory import own_directory
from tests.servers.private import ServerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.queue.contests import Results
    from benchmarks.race import Outcome


def main() -> int:
    command.unwind_when_stopped()
    options = _parser().parse_args()
    found: dict[str, tuple[str, Sequence[Outcome]]] = {}
    others: dict[str, dict[str, Any]] = {}
    failures: list[str] = []
    for database in options.database:
        try:
            results = _on(database, options)
        except (ServerError, ChildFailed) as error:
            failures.append(f"{database}: {error}")
            continue
        found[database] = (results.server, results.outcomes)
        others[database] = {"peers": results.peers, "missing": results.missing}
        failures += [f"{database}: {name}" for name in results.failed]
        if options.json:  # after each database: a later failure must not lose an earlier one's hour
            report.write_json(options.json, _about(options), found, others)
    command.show(options, found)
    if options.page and found:
        Page([report.as_json(_about(options), found, others)]).write(options.page)
    for each in failures:
        print(f"FAILED: {each}", file=sys.stderr)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = command.parser("queue", contests=list(contests.CONTESTS), databases=servers.DATABASES)
    parser.add_argument("--tmpfs", action="store_true", help="keep the data in memory, where a sync costs nothing")
    parser.add_argument("--no-peers", action="store_true", help="leave out other queues, which must be installed first")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the page for the docs to this file, and charts beside it"
    )
    return parser


def _on(database: str, options: argparse.Namespace) -> Results:
    command.announce(f"{database}: starting")
    with (
        servers.database(database, tmpfs=options.tmpfs) as url,
        own_directory("bench", servers.parent(tmpfs=options.tmpfs)) as directory,
    ):
        order = Order(
            database, url, options.only, command.rounds(options), options.quick, not options.no_peers, directory
        )
        [results] = together(1, contests.run, order)
    return results


def _about(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "quick": options.quick,
        "tmpfs": options.tmpfs,
        "cores": cpu_count(),
        "python": platform.python_version(),
        "django": version("django"),
    }


if __name__ == "__main__":
    sys.exit(main())
