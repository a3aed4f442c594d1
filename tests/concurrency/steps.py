"""Races as scripts of named steps: who goes first, who waits for it, and who has lost when both are through."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import connection, connections, transaction

from tests.patience import patience

Result = TypeVar("Result")

PATIENCE = patience(60)
"""Seconds after which a test has failed; nothing here waits for time to pass."""
RECHECK_AFTER = {"postgresql": 0.01, "mysql": 0.12}
"""Seconds between two looks; MariaDB's list of transactions is a copy that is made anew only if nobody read it for
a tenth of a second. Others may look too, in step with us, so that after the first look the time is drawn: up to
``DRAWN`` times as long."""
DRAWN = 5
_MYSQL_WAITS = (
    "SELECT COUNT(*) FROM performance_schema.data_lock_waits WHERE {}_engine_transaction_id IN (SELECT "
    "l.engine_transaction_id FROM performance_schema.data_locks AS l JOIN performance_schema.threads AS t "
    "USING (thread_id) WHERE l.lock_type = 'TABLE' AND t.processlist_id = {})"
)
"""By transaction: a record's lock that the purge has moved to another page bears the purge's thread, not its owner's.
MySQL's innodb_trx would do, but fails with 3854 while any session's statement has a character of four bytes."""


class Aside:
    """A thread with a database connection of its own; what it is told, it does in order."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._block = transaction.atomic()
        self.session = self.do(_session_id)

    def do(self, step: Callable[[], Result]) -> Result:
        return self.begin(step).result(PATIENCE)

    def begin(self, step: Callable[[], Result]) -> Future[Result]:
        return self._thread.submit(step)

    def open_transaction(self) -> None:
        self.do(self._block.__enter__)

    def commit(self) -> None:
        self.do(lambda: self._block.__exit__(None, None, None))

    def roll_back(self) -> None:
        self.do(lambda: transaction.set_rollback(True))
        self.commit()

    def close(self) -> None:
        self._thread.submit(connections.close_all)
        self._thread.shutdown()


@contextmanager
def aside() -> Iterator[Aside]:
    other = Aside()
    try:
        yield other
    finally:
        other.close()


@dataclass(frozen=True, slots=True)
class Met:
    """What came of two steps, and whether the second had to wait for the first one's transaction."""

    first: Any
    second: Any
    waited: bool


def meet(
    first: Callable[[], Any], second: Callable[[], Any], *, then_roll_back: bool = False, waits: bool | None = None
) -> Met:
    """``first`` is done and not committed; ``second`` begins beside it, and ends or waits; then ``first`` commits.

    SQLite has one writer, which it locks out at the door: there the second step begins after the commit.
    ``waits`` says what must be seen elsewhere. A step that raises has its exception for a result.
    """
    with aside() as one, aside() as other:
        one.open_transaction()
        first_result = one.do(lambda: outcome(first))
        end = one.roll_back if then_roll_back else one.commit
        if connection.vendor == "sqlite":
            end()
            return Met(first_result, other.do(lambda: outcome(second)), waited=False)
        running = other.begin(lambda: outcome(second))
        waited = waits_for_a_lock(other.session, running)
        end()
        met = Met(first_result, running.result(PATIENCE), waited)
    if waits is not None:
        assert met.waited is waits
    return met


def outcome(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except Exception as error:
        return error


def waits_for_a_lock(session: int, running: Future[Any]) -> bool:
    """True once the session waits for another's lock; False if it came to its end without."""
    for _ in polls():
        if running.done():
            return False
        if _is_blocked(session):
            return True
    raise AssertionError("it neither ended nor waited for a lock")


def until_somebody_waits_for_us() -> None:
    """Return when a session waits for a lock that this one holds, whoever else waits on this server."""
    assert any(_somebody_waits_for_us() for _ in polls()), "nobody waited for our lock"


def polls() -> Iterator[None]:
    """The moments at which to look who waits, or has a transaction."""
    end = time.monotonic() + PATIENCE
    pause = shortest = RECHECK_AFTER[connection.vendor]
    while time.monotonic() < end:
        yield
        time.sleep(pause)
        pause = random.uniform(1, DRAWN) * shortest


def _is_blocked(session: int) -> bool:
    if connection.vendor == "postgresql":
        question = "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
    elif connection.mysql_is_mariadb:
        question = (
            "SELECT COUNT(*) FROM information_schema.innodb_trx "
            "WHERE trx_mysql_thread_id = %s AND trx_state = 'LOCK WAIT'"
        )
    else:
        question = _MYSQL_WAITS.format("requesting", "%s")
    with connection.cursor() as cursor:
        cursor.execute(question, [session])
        return bool(cursor.fetchone()[0])


def _somebody_waits_for_us() -> bool:
    if connection.vendor == "postgresql":
        question = "SELECT COUNT(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    elif connection.mysql_is_mariadb:
        question = (
            "SELECT COUNT(*) FROM information_schema.innodb_lock_waits AS w JOIN information_schema.innodb_trx AS b "
            "ON b.trx_id = w.blocking_trx_id WHERE b.trx_mysql_thread_id = CONNECTION_ID()"
        )
    else:
        question = _MYSQL_WAITS.format("blocking", "CONNECTION_ID()")
    with connection.cursor() as cursor:
        cursor.execute(question)
        return bool(cursor.fetchone()[0])


def _session_id() -> int:
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()" if connection.vendor == "postgresql" else "SELECT CONNECTION_ID()")
        return int(cursor.fetchone()[0])
