"""Which contests there are, and one database's run of them."""

from __future__ import annotations

import os
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.command import tell
from benchmarks.race import Contest, race
from tests.servers.version import server_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.race import Outcome

CONTESTS: Final = {
    "enqueue": "enqueueing:one_by_one",
    "bulk": "enqueueing:bulk",
    "drain": "draining:draining",
    "drain-one": "draining:one_at_a_time",
    "drain-slow": "draining:slow",
    "backlog": "draining:backlog",
}
"""By name: the module in this package, and its function that makes a contest, or several, of a Bench."""


def run(
    begin: Callable[[], Any], database: str, url: str, names: Iterable[str], rounds: int, quick: bool, directory: Path
) -> tuple[str, list[Outcome], list[str]]:
    """In a process of its own, since Django has one default database: the server's version, the outcomes, and which
    contests failed."""
    begin()
    os.environ |= {
        "DBQUEUE_BENCH_DATABASE": database,
        "DBQUEUE_BENCH_URL": url,
        "DJANGO_SETTINGS_MODULE": "benchmarks.queue.settings",
    }
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from benchmarks.queue.bench import FULL, QUICK, Bench

    bench = Bench(database, url, QUICK if quick else FULL, quick, directory, lambda words: tell(f"{database}: {words}"))
    outcomes, failed = [], []
    for name in names:
        try:
            outcomes += [race(each, rounds=rounds, tell=bench.tell) for each in _made(name, bench)]
        except Exception:
            bench.tell(f"{name} FAILED\n{traceback.format_exc()}")
            failed.append(name)
    return server_version(url), outcomes, failed


def _made(name: str, bench: Any) -> list[Contest]:
    module, function = CONTESTS[name].split(":")
    made = getattr(import_module(f"benchmarks.queue.{module}"), function)(bench)
    return [made] if isinstance(made, Contest) else list(made)
