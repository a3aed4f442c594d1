"""Tables side by side, each with a thousand ready messages among others: what a claim must not pay for."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.db import connections

from benchmarks.queue.bench import QUEUE
from django_dbqueue.databases import server_of
from django_dbqueue.statuses import DONE, NEW, RUNNING
from tests.plans.crowd import gather_statistics, insert_messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.queue.bench import Bench

READY: Final = 1_000
"""Ready messages of each table, which are those that a claim finds."""
_DUE, _LATER = "-60 + n * 0.000001", "86400 + n * 0.001"


@dataclass(frozen=True, slots=True)
class Rows:
    """So many messages of one kind; ``seconds`` (SQL of n, their number) is when they are due, from now."""

    count: int
    status: str = NEW
    priority: int = 0
    seconds: str = _DUE
    queues: int = 0
    """How many queues share them; 0: they are where the claim looks."""
    parked: bool = False
    """They wait for others of their groups."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """One table: what is in it besides the thousand."""

    name: str
    rows: Sequence[Rows] = ()


def crowds(million: int) -> list[Crowd]:
    """The small table first; ``million`` is how many rows stand for one."""
    return [
        Crowd("1k ready"),
        Crowd("100k ready", [Rows(million // 10)]),
        Crowd("1M ready", [Rows(million)]),
        Crowd("5M ready", [Rows(5 * million)]),
        Crowd("1M done", [Rows(million, DONE)]),
        Crowd("1M delayed", [Rows(million, seconds=_LATER)]),
        Crowd("1M delayed, higher priority", [Rows(million, priority=9, seconds=_LATER)]),
        Crowd("1M waiting in groups", [Rows(million, parked=True)]),
        Crowd("1M ready in 1,000 queues", [Rows(million, queues=1_000)]),
        Crowd("1k leases expired", [Rows(READY, RUNNING)]),
        Crowd("200k leases expired", [Rows(million // 5, RUNNING)]),
    ]


@contextmanager
def filled(bench: Bench, wanted: Sequence[Crowd]) -> Iterator[dict[str, str]]:
    """Each in a database of its own, with statistics that are true; its alias by its name."""
    with ExitStack() as stack:
        aliases = {}
        for number, crowd in enumerate(wanted):
            alias = stack.enter_context(_database(f"crowd{number}"))
            for rows in [*crowd.rows, Rows(READY)]:
                _insert(alias, rows)
            gather_statistics(using=alias)
            bench.announce(f"a table with {crowd.name} stands")
            aliases[crowd.name] = alias
        yield aliases


@contextmanager
def _database(alias: str) -> Iterator[str]:
    """A database beside the default one, with the queue's tables."""
    settings = deepcopy(connections["default"].settings_dict)
    settings["TEST"]["NAME"] = f"{settings['NAME']}_{alias}"
    connections.settings[alias] = settings
    made = connections[alias]
    made.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield alias
    finally:
        made.creation.destroy_test_db("", verbosity=0)
        del connections[alias], connections.settings[alias]


def _insert(alias: str, rows: Rows) -> None:
    into = connections[alias]
    server = server_of(into)
    number = f"CAST(n %% {rows.queues} AS CHAR(9))" if rows.queues else ""
    insert_messages(
        into,
        rows.count,
        server.joined.format("'queue-'", number) if rows.queues else f"'{QUEUE}'",
        rows.status,
        rows.priority,
        rows.seconds,
        finished=server.now if rows.status == DONE else "NULL",
        claim=f"n + 1, NULL, {server.now}" if rows.status == RUNNING else "NULL, NULL, NULL",
        available=server.parked if rows.parked else None,
    )
