"""One export at a time per database: a lock that ends with its session or process."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django_dbqueue.databases.sessions_sql import SessionsSQL, lock_number
from django_dbqueue.exceptions import ExportBusy, ExportStopped
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.credentials import Credentials

_LOST = "This export has lost its lock, so another one may be running. It did nothing more. Run it again."


@contextmanager
def only_exporter(connection: Connection, credentials: Credentials) -> Iterator[None]:
    """Hold the lock of this database's exporters; ExportBusy says who has it.

    On SQLite it is a lock on a file next to the database, since nothing inside it could be held that long.
    """
    sessions = connection.server.sessions
    if sessions is None:
        with _file_lock(Path(f"{credentials.name}.export-lock")):
            yield
        return
    lock = _lock_of(connection)
    [(was_free,)] = connection.fetch(sessions.take_lock(lock))
    if not was_free:
        raise ExportBusy(
            f"Another export is working on this archive: {_who(connection, sessions, lock)} holds its lock. "
            "Nothing was done. Wait until it has finished; if it hangs, end that session."
        )
    try:
        yield
    finally:
        with suppress(Exception):  # a lost session has released it, as the end of the session does in any case
            connection.fetch(sessions.free_lock(lock))


def require_lock(connection: Connection) -> None:
    """Raise ExportStopped if the lock was lost with its session, so that another export may be running."""
    sessions = connection.server.sessions
    if sessions is None:
        return
    try:
        [(*_, is_ours)] = connection.fetch(sessions.lock_holder(_lock_of(connection)))
    except Exception as error:
        raise ExportStopped(f"{_LOST} Its database session ended: {error}.") from error
    if not is_ours:
        raise ExportStopped(_LOST)


def _who(connection: Connection, sessions: SessionsSQL, lock: int) -> str:
    [(_server, session, _is_ours)] = connection.fetch(sessions.lock_holder(lock))
    if session is None:
        return "somebody else"
    account = [row[0] for row in connection.fetch(sessions.account_of(session)) if row[0]]
    return f"the database session {session} ({account[0] if account else 'of another account'})"


def _lock_of(connection: Connection) -> int:
    return lock_number("export", connection.database, "")


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    import fcntl

    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            who = file.read() or "somebody"
            raise ExportBusy(
                f"Another export is working on this archive: {who} holds the lock {path}. Nothing was done. Wait "
                "until it has finished; if it hangs, end that process."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
