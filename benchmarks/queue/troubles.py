"""Deadlocks and lock waits, by the server's own counters: also those that were retried, and so surfaced nowhere."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from benchmarks.queue.sessions import execute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.queue.bench import Bench

_ASK: Final = {
    "mariadb": "SELECT variable_name, variable_value FROM information_schema.global_status "
    "WHERE variable_name IN ('INNODB_DEADLOCKS', 'INNODB_ROW_LOCK_WAITS')",
    "mysql": "SELECT name, count FROM information_schema.innodb_metrics "
    "WHERE name IN ('lock_deadlocks', 'lock_timeouts', 'lock_row_lock_waits')",
    "postgres": "SELECT 'deadlocks', deadlocks FROM pg_stat_database WHERE datname = current_database()",
}


@contextmanager
def reported(bench: Bench, what: str) -> Iterator[None]:
    """Report those that came while the block ran. SQLite counts none: it has one lock, for which everybody waits."""
    before = _counted(bench)
    yield
    more = {name: found - before[name] for name, found in _counted(bench).items() if found != before[name]}
    if more:
        bench.announce(f"{what}: the server counted " + ", ".join(f"{number} {name}" for name, number in more.items()))


def _counted(bench: Bench) -> dict[str, int]:
    if bench.database not in _ASK:
        return {}
    with bench.raw() as session:
        rows: list[tuple[Any, ...]] = execute(session, _ASK[bench.database])
    return {str(name).lower(): int(value) for name, value in rows}
