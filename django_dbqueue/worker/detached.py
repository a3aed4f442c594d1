"""What a handler forks shares nothing of the child's, and ends with it.

The forked process has a copy of the child's memory and shares its sockets. It drops the sessions there without telling
the server, which would end them for the child too; it writes to no board; and it ends when the child has ended, for
whatever reason. A copy of a handler that returns, instead of ending its process, settles nothing and takes no other
message.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import weakref
from contextlib import suppress
from multiprocessing import util
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_dbqueue.worker import last_words
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.fork import close, current_line
from django_dbqueue.worker.worker_options import EXIT_FAILED, EXIT_OK


class Detachment:
    """A guard, active once created in a child: what this process forks shares nothing of the child's."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._wrappers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._sessions: list[Any] = []
        self._lock = threading.RLock()
        self._lives, self._held_by_child = os.pipe()
        self._held_by_forked: int | None
        self._all_ended, self._held_by_forked = os.pipe()
        self.is_forked = False
        connection_created.connect(self._remember, weak=False)
        os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._detach)
        util.register_after_fork(self, Detachment._restart)

    def wait(self) -> None:
        """Wait until no process that a handler forked by hand is alive; multiprocessing handles its own."""
        if self._held_by_forked is not None:
            close([self._held_by_forked])
        os.read(self._all_ended, 1)

    def end_if_forked(self, *, succeeded: bool) -> None:
        """End this process if it is the copy of a handler that has returned; the handler itself returns as well."""
        if self.is_forked:
            last_words.flush()
            os._exit(EXIT_OK if succeeded else EXIT_FAILED)

    def _remember(self, *, connection: BaseDatabaseWrapper, **_: object) -> None:
        with self._lock:
            self._wrappers.add(connection)

    def _before(self) -> None:
        """Keep the drivers' connections alive: those of other threads would be closed when these vanish in the fork."""
        last_words.write_out()
        self._lock.acquire()
        self._sessions = [each.connection for each in self._wrappers if each.connection is not None]

    def _after(self) -> None:
        self._sessions = []
        self._lock.release()

    def _detach(self) -> None:
        self._lock.release()
        if not self.is_forked:  # a fork of a forked process only has to learn when to end
            self.is_forked = True
            close([self._held_by_child, self._all_ended, *current_line()])
            self._board.detach()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for session in self._sessions:
                _mute(session)
            _forget_sessions()
        threading.Thread(target=self._end_with_the_child, name="dbqueue-forked", daemon=True).start()

    def _restart(self) -> None:
        """Let a multiprocessing process, which never returns to the handler, connect even if that was in atomic()."""
        if self._held_by_forked is not None:  # a descriptor may refer to another file by the time this process forks
            close([self._held_by_forked])
            self._held_by_forked = None
        for connection in connections.all(initialized_only=True):
            del connections[connection.alias]

    def _end_with_the_child(self) -> None:
        with suppress(OSError):
            os.read(self._lives, 1)
            os.kill(os.getpid(), signal.SIGKILL)


def _mute(session: Any) -> None:
    """Silence a driver's connection and never close it, which could undo another process's work."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))
    with suppress(Exception):  # SQLite has no socket
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, session.fileno(), inheritable=False)
        os.close(nowhere)


def _forget_sessions() -> None:
    """Let this thread reconnect, but not in an open atomic(), whose block must not continue as if it were whole."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            connection.connection = None
            connection.closed_in_transaction = connection.needs_rollback = True
        else:
            del connections[connection.alias]
