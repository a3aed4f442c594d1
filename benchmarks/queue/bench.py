"""One database's part of a run: what every contest needs to know, and its rows."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection

from benchmarks.queue.sessions import connect
from django_dbqueue.databases import server_of
from django_dbqueue.models import Message, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.queue.peers.peer import Peer

TABLE: Final = Message._meta.db_table
RESULTS: Final = Result._meta.db_table
QUEUE: Final = "bench"
"""Where messages go, and what the consumer of `queue_consumers` consumes."""
SLOW_QUEUE: Final = "bench-slow"
"""The same, for the consumer that takes five milliseconds."""
TASKS_QUEUE: Final = "bench-tasks"
"""The same, for the tasks of `bench_tasks`."""
ASYNC_QUEUE: Final = "bench-async"
"""The same, for the consumer that waits in a coroutine."""
ONE_QUEUE: Final = "bench-rows"
"""The same, for the consumer that writes two rows in a transaction for each message."""
LIST_QUEUE: Final = "bench-rows-of-many"
"""The same, for the one that does so for a hundred at once."""
ROOT: Final = Path(__file__).resolve().parents[2]
PADDING: Final = "x" * 60
_AT_ONCE: Final = 100_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many messages."""

    one_by_one: int
    bulk: int
    drain: int
    drain_one: int
    slow: int
    waiting: int
    backlog: int


FULL: Final = Sizes(
    one_by_one=12_000, bulk=10_000, drain=20_000, drain_one=4_000, slow=600, waiting=2_000, backlog=1_000_000
)
QUICK: Final = Sizes(one_by_one=200, bulk=1_000, drain=4_000, drain_one=200, slow=100, waiting=2_000, backlog=10_000)


@dataclass(frozen=True, slots=True)
class Bench:
    database: str
    """mariadb, mysql, postgres or sqlite; in Django it is `default`."""
    url: str
    sizes: Sizes
    quick: bool
    directory: Path
    """For this run's files; on the same file system as the data."""
    announce: Callable[[str], None]
    peers: Sequence[Peer] = ()
    """Who else runs here."""

    def environment(self, **more: str) -> dict[str, str]:
        """Of child processes: Django on this database."""
        return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | more

    def execute(self, sql: str, params: tuple[Any, ...] = ()) -> int:
        """Run a statement; return how many rows it touched."""
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            return int(cursor.rowcount)

    def number(self, sql: str, params: tuple[Any, ...] = ()) -> int:
        """The one number that a query answers."""
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            return int(cursor.fetchone()[0])

    @contextmanager
    def raw(self) -> Iterator[Any]:
        """A session of the driver's own."""
        with closing(connect(self.url)) as session:
            yield session

    def empty(self) -> None:
        """Nothing in any of the queue's tables, and nothing left to purge behind it."""
        present = set(connection.introspection.table_names())
        tables = [each._meta.db_table for each in apps.get_app_config("django_dbqueue").get_models()]
        statements = connection.ops.sql_flush(
            no_style(), [name for name in tables if name in present], reset_sequences=True
        )
        connection.ops.execute_sql_flush(statements)

    def fill(self, rows: int, *, queue: str = QUEUE) -> None:
        """That many more messages: ready, in order of their ids, each with a payload of its own of about 80 bytes."""
        for first in range(0, rows, _AT_ONCE):
            self._fill_at_once(first, min(_AT_ONCE, rows - first), queue)
        self.analyze()

    def _fill_at_once(self, first: int, rows: int, queue: str) -> None:
        digits = "SELECT 0 AS i " + " ".join(f"UNION ALL SELECT {digit}" for digit in range(1, 10))
        number = " + ".join(f"{10**place} * d{place}.i" for place in range(5))
        tables = ", ".join(f"({digits}) d{place}" for place in range(5))
        text = "CAST({} AS CHAR(12))" if connection.vendor == "mysql" else "CAST({} AS TEXT)"
        body = server_of(connection).joined.format("%s", text.format(f"n + {first}"), "%s")
        self.execute(
            f"INSERT INTO {TABLE} (queue, body) SELECT '{queue}', {body} "
            f"FROM (SELECT {number} AS n FROM {tables}) numbers WHERE n < {rows} ORDER BY n",
            ('{"n": ', f', "padding": "{PADDING}"}}'),
        )

    def analyze(self) -> None:
        """What a live system's server has done by itself some minutes after so many rows came.

        It has counted them; PostgreSQL has been through them, and InnoDB has written its dirty pages.
        """
        statements = {
            "mysql": (f"ANALYZE TABLE {TABLE}", f"FLUSH TABLES {TABLE} FOR EXPORT", "UNLOCK TABLES"),
            "postgresql": (f"VACUUM ANALYZE {TABLE}",),
            "sqlite": ("ANALYZE",),
        }
        with connection.cursor() as cursor:
            for statement in statements[connection.vendor]:
                cursor.execute(statement)
                if cursor.description:
                    cursor.fetchall()

    def expect(self, found: int, wanted: int, what: str) -> None:
        """Fail the contest where these differ."""
        if found != wanted:
            raise AssertionError(f"{what}: {found:,}, not {wanted:,}")
