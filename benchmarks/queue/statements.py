"""How many statements a database has run, by its own counters; transaction control is not counted.

MariaDB counts for the whole server, which is ours alone; MySQL by database; PostgreSQL by `pg_stat_statements`, which
is on only while it is queried; SQLite, which serves nobody, by the driver's trace in the worker's processes.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from benchmarks.queue.sessions import connect, execute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.queue.bench import Bench

TRACE: Final = "DBQUEUE_BENCH_TRACE"
"""The environment variable that names the file to which a process writes a byte for each statement (SQLite)."""
_CONTROL: Final = ("BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "SET", "PRAGMA", "--")
_MARIADB: Final = (
    "SELECT SUM(IF(variable_name = 'QUESTIONS', 1, -1) * variable_value) FROM information_schema.global_status WHERE "
    "variable_name IN ('QUESTIONS', 'COM_BEGIN', 'COM_COMMIT', 'COM_ROLLBACK', 'COM_SET_OPTION')"
)
_MYSQL: Final = (
    "SELECT COALESCE(SUM(count_star), 0) FROM performance_schema.events_statements_summary_by_digest WHERE "
    "schema_name = DATABASE() AND digest_text NOT REGEXP '^(BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET) ?' "
    "AND digest_text NOT LIKE '%events_statements_summary_by_digest%'"
)
_POSTGRES: Final = (
    "SELECT COALESCE(SUM(calls), 0) FROM pg_stat_statements JOIN pg_database ON oid = dbid WHERE "
    "datname = current_database() AND query !~ '^(BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET)' "
    "AND query NOT LIKE '%pg_stat_statements%'"
)


class Counter:
    """Counts statements from some moment on."""

    def __init__(self, ask: Callable[[], int], environment: dict[str, str] | None = None) -> None:
        self.count = ask
        self.environment = environment or {}
        """What the processes must be told whose statements are to be counted."""


@contextmanager
def counter(bench: Bench) -> Iterator[Counter]:
    """Of all statements in this database."""
    if bench.database == "sqlite":
        path = bench.directory / "trace"
        path.write_bytes(b"")
        yield Counter(lambda: path.stat().st_size, {TRACE: str(path)})
        return
    with closing(connect(bench.url)) as session:
        if bench.database == "postgres":
            with _tracked(session):
                yield Counter(lambda: _number(session, _POSTGRES))
        elif bench.database == "mariadb":
            queries = count(1)  # each query counts itself too
            yield Counter(lambda: _number(session, _MARIADB) - next(queries))
        else:
            yield Counter(lambda: _number(session, _MYSQL))


@contextmanager
def _tracked(session: Any) -> Iterator[None]:
    [(name,)] = execute(session, "SELECT current_database()")
    execute(session, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    execute(session, f"ALTER DATABASE {name} SET pg_stat_statements.track = 'top'")
    try:
        yield
    finally:
        execute(session, f"ALTER DATABASE {name} RESET pg_stat_statements.track")


def _number(session: Any, sql: str) -> int:
    return int(execute(session, sql)[0][0])


def trace_if_set() -> None:
    """Write a byte for each statement of this process and of those that it forks, where the environment says so."""
    if TRACE not in os.environ:
        return
    from django.db.backends.signals import connection_created

    file = os.open(os.environ[TRACE], os.O_WRONLY | os.O_APPEND)

    def note(sql: str) -> None:
        if not sql.startswith(_CONTROL):
            os.write(file, b".")

    def trace(connection: Any, **_: Any) -> None:
        connection.connection.set_trace_callback(note)

    connection_created.connect(trace, weak=False)
