"""How many sessions the pipeline has on a database at once, over all its processes on all machines.

Each session holds one of ``maxConnections`` numbered places, as a named lock of its own: the server frees it when the
session ends, however that happens. Who finds no free place ends its session and waits without one. On each machine one
process asks at a time, and the others queue up behind it, so there is at most one session more per machine.

Nobody may wait for a place while it holds one, so tasks end their sessions before they pass rows on. What runs as long
as a query or a job does (a stream's runner, an export's lock) never waits: see ``open_lasting``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from django_dbqueue.databases.sessions_sql import lock_number
from django_dbqueue.exceptions import DatabaseAway
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import MAX_CONNECTIONS_OPTION, Credentials
from django_dbqueue.spark.outage import Patience

_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0
_REPORTED_AFTER: Final = 10.0
_REPORTED_EVERY: Final = 60.0
_LEFT_TO_TASKS: Final = 1
"""The place that no standing session takes."""

logger = logging.getLogger("django_dbqueue.spark")


class Requirement(Protocol):
    """What a session must show before anything is read on it; pickled to the tasks. Replicas have one."""

    def check(self, connection: Connection) -> None:
        """Raise DatabaseAway if the session doesn't show it yet."""


def admitted(credentials: Credentials, *, outage: float = 0.0, requires: Requirement | None = None) -> Connection:
    """Open a session as soon as there is a place for it; it holds the place until it ends.

    A server, or an account, without a session left is waited for up to ``outage`` seconds; then DatabaseAway says so.
    ReplicaBehind says that the session doesn't show what it ``requires``.
    """
    connection = _admitted(credentials, outage)
    if requires is not None:
        try:
            requires.check(connection)
        except BaseException:
            connection.discard()
            raise
    return connection


def _admitted(credentials: Credentials, outage: float) -> Connection:
    if not credentials.is_counted:
        return Connection(credentials)
    with _gate(credentials):
        pause, began, report_at = _FIRST_PAUSE, time.monotonic(), _REPORTED_AFTER
        while True:
            connection = _opened(credentials, Patience(outage))
            if _takes_place(connection, range(1, credentials.max_connections + 1)):
                return connection
            connection.discard()
            waited = time.monotonic() - began
            if waited >= report_at:
                report_at = waited + _REPORTED_EVERY
                logger.warning(
                    "All %s sessions that %s allows on the database %r are in use. Waiting for one, for %.0f s now.",
                    credentials.max_connections, MAX_CONNECTIONS_OPTION, credentials.name, waited,
                )  # fmt: skip
            time.sleep(random.uniform(0.5, 1.0) * pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def open_lasting(credentials: Credentials) -> Connection:
    """Open a session that lives as long as a query or a job; it counts if a place is free, and waits for none.

    A heartbeat must not be late because tasks are busy, and tasks must not wait for what waits for them: so one place
    is never taken here, and a session without one is opened all the same.
    """
    connection = Connection(credentials)
    if credentials.is_counted:
        _takes_place(connection, range(1 + _LEFT_TO_TASKS, credentials.max_connections + 1))
    return connection


def _opened(credentials: Credentials, patience: Patience) -> Connection:
    while True:
        try:
            return Connection(credentials)
        except DatabaseAway as error:
            if not error.is_full:
                raise
            patience.wait(error)


def _takes_place(connection: Connection, places: Sequence[int]) -> bool:
    """Return whether the session now holds one of these places; it is ended if that can't be found out."""
    sessions = connection.server.sessions
    if not places or sessions is None:
        return False
    start = random.randrange(len(places))
    try:
        locks = [lock_number("place", connection.database, str(place)) for place in places]
        [(place,)] = connection.fetch(sessions.take_lock(*locks[start:], *locks[:start]))
    except BaseException:
        connection.discard()
        raise
    return place is not None


@contextmanager
def _gate(credentials: Credentials) -> Iterator[None]:
    """Let one process of this machine and account in at a time; the lock ends with its process.

    Where there can be no such lock, the places bound the sessions that work, but not those that ask.
    """
    try:
        import fcntl

        # Not a symbolic link, which somebody else may have put into a directory for all
        file = os.open(_gate_file(credentials), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (ImportError, OSError):
        _report_no_gate(tempfile.gettempdir())
        yield
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


@cache
def _report_no_gate(directory: str) -> None:
    """Say it once in a process, which would otherwise do so for each of its sessions."""
    logger.warning(
        "No lock file can be created in %s, so all tasks of this machine may ask for a session at once.", directory
    )


def _gate_file(credentials: Credentials) -> Path:
    where = f"{credentials.vendor}\0{credentials.host}\0{credentials.port}\0{credentials.name}"
    return Path(tempfile.gettempdir(), f"dbqueue-{os.getuid()}-{hashlib.sha256(where.encode()).hexdigest()[:16]}.lock")
