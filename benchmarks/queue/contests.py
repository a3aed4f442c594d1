"""Which contests there are, and one database's run of them."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from benchmarks import command
from benchmarks.race import Contest, race
from tests.servers.version import server_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from benchmarks.race import Outcome

CONTESTS: Final = {
    "enqueue": "enqueueing:one_by_one",
    "bulk": "enqueueing:bulk",
    "drain": "draining:draining",
    "drain-one": "draining:one_at_a_time",
    "drain-slow": "draining:slow",
    "async": "waiting:waiting",
    "batches": "draining:batches",
    "backlog": "draining:backlog",
    "tasks": "tasking:tasks",
    "groups": "grouping:grouping",
    "steps": "stepping:stepping",
    "flows": "flowing:flowing",
    "memory": "memory:memory",
    "pick-up": "picking_up:picking_up",
    "notice": "enqueueing:noticed",
    "idle": "idling:idling",
    "claim": "claiming:among_others",
    "view": "claiming:under_a_read_view",
}
"""By name: the module in this package, and its function that makes a contest, or several, of a Bench."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run on one database, which is there and empty."""

    database: str
    url: str
    contests: Sequence[str]
    rounds: int
    quick: bool
    peers: bool
    """Whether other queues race too."""
    directory: Path


@dataclass(frozen=True, slots=True)
class Results:
    """What came of it."""

    server: str
    """Its version."""
    outcomes: list[Outcome]
    failed: list[str]
    """The contests that broke off."""
    peers: dict[str, str]
    """The versions of those that took part, by name."""
    missing: dict[str, str]
    """Why others didn't."""


def run(begin: Callable[[], Any], order: Order) -> Results:
    """In a process of its own, since Django has one default database."""
    begin()
    _set_up_django(order)
    from benchmarks.queue import rivals
    from benchmarks.queue.bench import FULL, QUICK, Bench

    def announce(words: str) -> None:
        command.announce(f"{order.database}: {words}")

    outcomes: list[Outcome] = []
    failed = []
    parent = order.directory.parent  # servers of peers run under accounts that can't look into our own directory
    peers, missing = rivals.available(order.database, order.url, parent, announce) if order.peers else ([], {})
    sizes = QUICK if order.quick else FULL
    bench = Bench(order.database, order.url, sizes, order.quick, order.directory, announce, peers)
    for name in order.contests:
        try:
            outcomes += [race(each, rounds=order.rounds, announce=announce) for each in _made(name, bench)]
        except Exception:  # the other contests are worth their hours
            announce(f"{name} FAILED\n{traceback.format_exc()}")
            failed.append(name)
    versions = {each.name: each.versions for each in peers}
    return Results(server_version(order.url), outcomes, failed, versions, missing)


def _set_up_django(order: Order) -> None:
    os.environ |= {
        "DBQUEUE_BENCH_DATABASE": order.database,
        "DBQUEUE_BENCH_URL": order.url,
        "DJANGO_SETTINGS_MODULE": "benchmarks.queue.settings",
    }
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def _made(name: str, bench: Any) -> Iterable[Contest]:
    """One at a time: what several share may stand for as long as they are asked for."""
    module, function = CONTESTS[name].split(":")
    made: Contest | Iterable[Contest] = getattr(import_module(f"benchmarks.queue.{module}"), function)(bench)
    return [made] if isinstance(made, Contest) else made
