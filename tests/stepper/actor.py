"""An actor: a thread with a database connection of its own, which stops before each statement that it sends."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from django.db import connections
from django.db.backends.utils import CursorWrapper

from tests.patience import patience
from tests.stepper.sessions import end_session, prepare_session, session_id

Result = TypeVar("Result")

ALIAS = "default"
PATIENCE = patience(30)
"""Seconds after which an order has failed in which nobody reaches a statement or an end."""
_QUIET = {
    "mysql": ("START ", "SET ", "SAVEPOINT", "RELEASE", "SHOW "),
    "postgresql": ("BEGIN", "SET ", "SAVEPOINT", "RELEASE", "SHOW "),
    "sqlite": ("PRAGMA", "SAVEPOINT", "RELEASE"),
}
"""How statements begin that neither read nor lock what others write, so that an order with a stop before them is the
same as one without. A server's BEGIN takes neither a snapshot nor a lock; SQLite's takes the write lock."""
_LOUD = "SET STATEMENT "
"""MariaDB's way to set something for the statement that follows."""


class State(enum.Enum):
    """Where an actor is, as the scheduler knows it."""

    STOPPED = "stopped"
    """It is about to send ``step``, and may be let go, or be killed."""
    SENDING = "sending"
    """The server has its statement, or it is on the way from one statement to the next."""
    ENDED = "ended"


class _Killed(BaseException):
    """Unwinds the code of an actor whose process has died: it sends nothing more."""


class _KilledActor:
    def __repr__(self) -> str:
        return "KILLED"


KILLED = _KilledActor()
"""The result of an actor that was killed."""


class Actor:
    """Runs one function for each order; between two orders it keeps its thread and its connection."""

    def __init__(self, name: str, changed: threading.Condition) -> None:
        self.name = name
        self.state = State.ENDED
        self.step = ""
        """The statement before which it is stopped, or that it is sending."""
        self.is_reading = False
        """Whether that statement only reads, and takes no lock."""
        self.in_transaction = False
        """Whether its session was in a transaction when it stopped."""
        self.session = 0
        self.result: Any = None
        self.stops = 0
        """How often it has stopped or ended: a change that the scheduler waits for."""
        self._changed = changed
        self._is_dying = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    def start(self, work: Callable[[], object]) -> None:
        """Run until the first statement."""
        self._is_dying, self.result = False, None
        self.session = self._thread.submit(self._connect).result(PATIENCE)
        self.state = State.SENDING
        self._thread.submit(self._run, work)

    def _connect(self) -> int:
        connection: Any = connections[ALIAS]
        if "make_cursor" not in vars(connection):
            connection.ensure_connection()
            prepare_session(connection)
            self._watch(connection)
        return session_id(connection)

    def _watch(self, connection: Any) -> None:
        """Stop below all of Django's execute wrappers, where the text is what the driver gets."""
        actor = self
        quiet = _QUIET[connection.vendor]

        class Watched(CursorWrapper):
            def _execute(self, sql: str, params: Any, *_: Any) -> Any:
                return actor._send(sql, lambda: super(Watched, self)._execute(sql, params), quiet)

            def _executemany(self, sql: str, params: Any, *_: Any) -> Any:
                return actor._send(sql, lambda: super(Watched, self)._executemany(sql, params), quiet)

        commit, rollback = connection._commit, connection._rollback
        connection.make_cursor = lambda cursor: Watched(cursor, connection)
        connection._commit = lambda: actor._send("COMMIT", commit)
        connection._rollback = lambda: actor._send("ROLLBACK", rollback)

    def _send(self, sql: str, send: Callable[[], Result], quiet: tuple[str, ...] = ()) -> Result:
        text = " ".join(sql.split())
        if self._is_dying:
            raise _Killed
        # Several statements that travel together are a step, whatever the first of them is
        if "; " in text or text.startswith(_LOUD) or not text.startswith(quiet):
            self._stop(text)
        try:
            return send()
        except Exception:
            if self._is_dying:
                raise _Killed from None
            raise

    def _stop(self, text: str) -> None:
        connection: Any = connections[ALIAS]
        if connection.vendor == "sqlite":
            self.in_transaction = connection.connection.in_transaction
        self.step = text
        self.is_reading = text.startswith("SELECT") and " FOR UPDATE" not in text
        with self._changed:
            self.state = State.STOPPED
            self.stops += 1
            self._changed.notify_all()
            while self.state is State.STOPPED:
                self._changed.wait()
        if self._is_dying:
            if connection.vendor == "sqlite":
                # Before the code unwinds: Django would turn autocommit on, which commits here
                connection.connection.rollback()
            raise _Killed

    def go(self) -> None:
        """Let it send the statement before which it is stopped, and go on to the next one."""
        with self._changed:
            if self.state is State.STOPPED:
                self.state = State.SENDING
                self._changed.notify_all()

    def kill(self) -> None:
        """End its session from outside, and unwind its code, which sends nothing more, as if its process had died."""
        self._is_dying = True  # before a statement that waits for a lock fails, since the code would go on
        end_session(self.session)
        self.go()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            result: object = work()
        except BaseException as error:
            result = error
        if self._is_dying:
            result = KILLED
            _forget_connection()
        with self._changed:
            self.result = result
            self.state = State.ENDED
            self.stops += 1
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread and its connection; don't wait for ever for code that comes to no end."""
        with suppress(TimeoutError):
            self._thread.submit(_forget_connection).result(PATIENCE)
        self._thread.shutdown(wait=False)


def _forget_connection() -> None:
    """Close the socket, whatever Django believes of its transaction; the thread's next use makes a new connection."""
    connection: Any = connections[ALIAS]
    if connection.connection is not None:
        with suppress(connection.Database.Error):
            connection.connection.close()
    del connections[ALIAS]
