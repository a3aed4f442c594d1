"""What only the server knows of the actors' sessions: which of them wait for a lock. And what ends one."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from django.db import connection

from tests.patience import patience
from tests.process.sessions import end_sessions, sessions

_SECONDS = patience(30)
_TRANSACTION = re.compile(r"^---TRANSACTION ", re.MULTILINE)
_THREAD = re.compile(r"thread id (\d+),")


_PREPARED = {
    "sqlite": ("PRAGMA busy_timeout = 0", "PRAGMA synchronous = OFF"),
    # The later of two that wait for each other then closes the circle, and is the victim
    "postgresql": ("SET deadlock_timeout = '1ms'", "SET synchronous_commit = off"),
    "mysql": ("SET sql_log_bin = 0",),
}


def prepare_session(its_connection: Any) -> None:
    """Make waits that can only end in an error end at once, and commits that nobody else sees the disk of cheap.

    Call it before the connection is watched.
    """
    with its_connection.cursor() as cursor:
        for statement in _PREPARED[its_connection.vendor]:
            cursor.execute(statement)


def session_id(its_connection: Any) -> int:
    """Return the id of a connection's session, without a statement; 0 on SQLite."""
    if its_connection.vendor == "sqlite":
        return 0
    if its_connection.vendor == "postgresql":
        return int(its_connection.connection.info.backend_pid)
    return int(its_connection.connection.thread_id())


def waiting_sessions(sessions: Collection[int]) -> set[int]:
    """Return those of the sessions that wait for a lock.

    The answer is as old as the question: MariaDB's information_schema, which would say it in SQL, is a copy that is
    made a tenth of a second apart. Here the server walks through its list of transactions.
    """
    if connection.vendor == "sqlite":
        return set()  # who can't begin is refused, and doesn't wait
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT pid FROM unnest(%s) AS asked (pid) WHERE pg_blocking_pids(pid) <> '{}'", [list(sessions)]
            )
            return {row[0] for row in cursor.fetchall()}
        cursor.execute("SHOW ENGINE INNODB STATUS")
        status: str = cursor.fetchone()[2]
    _, _, transactions = status.partition("\nTRANSACTIONS\n")  # before it: the latest deadlock, which is over
    blocks = [block for block in _TRANSACTION.split(transactions) if "\nLOCK WAIT " in block]
    found = {int(match[1]) for block in blocks if (match := _THREAD.search(block))}
    return found & set(sessions)


def end_session(session: int) -> None:
    """End a session from outside, as the death of its process does; return when it is gone, and its locks with it.

    SQLite has no sessions: there the actor itself undoes what it has not committed.
    """
    if connection.vendor == "sqlite":
        return
    end_sessions({session})
    end = time.monotonic() + _SECONDS
    while session in sessions():
        assert time.monotonic() < end, f"session {session} was killed, and is still there"
        time.sleep(0.001)


class WriteLock:
    """SQLite's one lock for writers; elsewhere there is none, and it is never taken."""

    def __init__(self) -> None:
        self._probe: sqlite3.Connection | None = None
        if connection.vendor == "sqlite":
            self._probe = sqlite3.connect(str(connection.settings_dict["NAME"]), timeout=0, isolation_level=None)

    def is_held(self) -> bool:
        """Return whether somebody is writing: who begins to write now is refused, and must come back."""
        if self._probe is None:
            return False
        try:
            self._probe.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        self._probe.execute("ROLLBACK")
        return False

    def close(self) -> None:
        """Close the connection that asks."""
        if self._probe is not None:
            with suppress(sqlite3.Error):
                self._probe.close()
