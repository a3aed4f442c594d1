"""The processes of a run, and what is done to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from django.db import Error, connections

from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.testing.torture import faults
from django_dbqueue.testing.torture.errand import Errand
from django_dbqueue.testing.torture.event_log import ROLLED_BACK, SENDING, SENT, SESSION, History
from django_dbqueue.testing.torture.faults import Fault
from django_dbqueue.testing.torture.scratch import LEASE

WORKERS: Final = 2
SENDERS: Final = 2
STOPPED_FOR: Final = LEASE + 2.0
"""Seconds for which a worker is frozen: longer than its leases."""
LEAVES_WITHIN: Final = 40.0
"""Seconds in which a worker that was told to stop must have done so."""
_WAITS_FOR_A_CHILD: Final = 3.0
"""Seconds for which a worker that has just started may take to have children that can be killed."""
_WAITS_FOR_A_TRANSACTION: Final = 1.0
"""Seconds for which a sender that is to be killed is watched for one."""
_SESSIONS_AT_ONCE: Final = 3
_SESSIONS_REMEMBERED: Final = 60


class Process:
    """A worker or a sender, in a process group of its own."""

    def __init__(self, kind: str, errand: Errand, log: Path) -> None:
        self.kind = kind
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.{kind}_process", errand.as_argument],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self.thaws_at: float | None = None

    @property
    def pid(self) -> int:
        """The process, and its group."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it alone."""
        self._process.send_signal(number)

    def send_all(self, number: signal.Signals) -> None:
        """Send a signal to it and all that it has started."""
        with suppress(ProcessLookupError, PermissionError):  # the latter from a group of zombies, on macOS
            os.killpg(self.pid, number)

    def has(self, pid: int) -> bool:
        """Return whether a process belongs to it, and isn't the one that was started."""
        try:
            return pid != self.pid and os.getpgid(pid) == self.pid
        except ProcessLookupError:
            return False

    @property
    def last_line(self) -> str:
        """The end of what it printed."""
        return next(reversed(self._log.read_text(errors="replace").strip().splitlines()), "")

    def end(self) -> None:
        """End whatever is left of it."""
        self.send_all(signal.SIGKILL)
        self._process.wait()

    def ended_within(self, seconds: float) -> bool:
        """Wait for its end."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(seconds, 0.0))
        return self.code is not None


class Crew:
    """All of them: started, struck by faults, replaced, and ended."""

    def __init__(self, errand: Errand, history: History, directory: Path) -> None:
        self._errand = errand
        self._history = history
        self._directory = directory
        self._locks: list[int] = []
        self._pids: list[int] = []
        self._sending: set[int] = set()
        self._started = 0
        self._leaving: list[tuple[Process, float]] = []
        self._senders_end = False
        self.workers: list[Process] = []
        self.senders: list[Process] = []
        self.unasked: list[str] = []
        """Processes that ended without being told to: which, with which exit code, and the last that they printed."""
        self.stuck = 0
        """Workers that did not stop when they were told to."""

    def start(self) -> None:
        """Start all."""
        self.workers = [self._start("worker") for _ in range(WORKERS)]
        self.senders = [self._start("sender") for _ in range(SENDERS)]

    def _start(self, kind: str) -> Process:
        self._started += 1
        errand = replace(self._errand, seed=f"{self._errand.seed}-{self._started}")
        return Process(kind, errand, self._directory / f"{kind}-{self._started}.log")

    def strike(self, fault: Fault) -> bool:
        """Let a fault happen; return whether there was something that it could happen to."""
        acts = {
            faults.KILL: self._kill_child,
            faults.WORKER: self._kill_worker,
            faults.STOP: self._freeze,
            faults.RESTART: self._restart,
            faults.SESSION: self._end_sessions,
            faults.SENDER: self._kill_sender,
        }
        self._read()
        return acts[fault.kind](fault.target)

    def maintain(self) -> None:
        """Thaw who was frozen for long enough, and replace who ended: it must not have, unless it was told to."""
        for worker in self.workers:
            if worker.thaws_at is not None and time.monotonic() >= worker.thaws_at:
                self._thaw(worker)
        for crew in (self.workers, self.senders):
            for at, process in enumerate(crew):
                if process.code is not None and not (self._senders_end and crew is self.senders):
                    self.unasked.append(f"a {process.kind} ended with {process.code}: {process.last_line}")
                    process.end()
                    crew[at] = self._start(process.kind)
        for process, until in self._leaving[:]:
            if process.code is not None or time.monotonic() > until:
                self.stuck += process.code is None
                process.end()
                self._leaving.remove((process, until))

    def stop_senders(self) -> None:
        """Let the senders finish what they are at; one that can't is ended, and what it was at is not known."""
        self._senders_end = True
        for process in self.senders:
            process.send(signal.SIGTERM)
        until = time.monotonic() + LEAVES_WITHIN
        for process in self.senders:
            process.ended_within(until - time.monotonic())
            process.end()

    def stop_workers(self) -> None:
        """Stop them as a deployment does, and count who doesn't."""
        for worker in self.workers:
            self._leave(worker)
        for process, until in self._leaving:
            self.stuck += not process.ended_within(until - time.monotonic())
            process.end()
        self._leaving = []

    def end(self) -> None:
        """End all of them, at once."""
        for process in (*self.workers, *self.senders, *(process for process, _ in self._leaving)):
            process.end()

    def thaw_all(self) -> None:
        """Let everybody continue."""
        for worker in self.workers:
            self._thaw(worker)

    # -- the faults ---------------------------------------------------------------------------------------

    def _kill_child(self, target: int) -> bool:
        until = time.monotonic() + _WAITS_FOR_A_CHILD
        while not (pids := self._children()) and time.monotonic() < until:
            time.sleep(0.05)
            self._read()
        if not pids:
            return False
        os.kill(pids[target % len(pids)], signal.SIGKILL)
        return True

    def _kill_worker(self, target: int) -> bool:
        at = target % len(self.workers)
        self.workers[at].end()
        self.workers[at] = self._start("worker")
        return True

    def _freeze(self, target: int) -> bool:
        """One at a time: the other one is to take over what it holds."""
        running = self._running()
        if len(running) < len(self.workers):
            return False
        worker = running[target % len(running)]
        worker.send_all(signal.SIGSTOP)
        worker.thaws_at = time.monotonic() + STOPPED_FOR
        return True

    def _restart(self, target: int) -> bool:
        running = self._running()
        if not running:
            return False
        worker = running[target % len(running)]
        self._leave(worker)
        self.workers[self.workers.index(worker)] = self._start("worker")
        return True

    def _kill_sender(self, target: int) -> bool:
        """In the middle of a transaction, if it begins one in time."""
        at = target % len(self.senders)
        until = time.monotonic() + _WAITS_FOR_A_TRANSACTION
        while self.senders[at].pid not in self._sending and time.monotonic() < until:
            time.sleep(0.002)
            self._read()
        self.senders[at].end()
        self.senders[at] = self._start("sender")
        return True

    def _end_sessions(self, target: int) -> bool:
        session = session_of(self._errand.alias)
        if (sessions := session.server.sessions) is None:
            return False
        ended, first = 0, target % max(len(self._locks), 1)
        for lock in (*self._locks[first:], *self._locks[:first]):
            try:
                [(_server, holder, *_)] = session.fetch(sessions.lock_holder(lock))
                if holder is not None:
                    end_session(self._errand.alias, int(holder))
                    ended += 1
            except Error:  # it has ended in between, or our own session has
                connections[self._errand.alias].close_if_unusable_or_obsolete()
            if holder is None:
                self._locks.remove(lock)
            if ended == _SESSIONS_AT_ONCE:
                break
        return ended > 0

    # -- who there is -------------------------------------------------------------------------------------

    def _children(self) -> list[int]:
        return [pid for pid in self._pids if any(worker.has(pid) for worker in self._running())]

    def _running(self) -> list[Process]:
        return [worker for worker in self.workers if worker.thaws_at is None and worker.code is None]

    def _read(self) -> None:
        for note in self._history.news():
            if note["step"] == SENDING:
                self._sending.add(note["pid"])
            elif note["step"] in (SENT, ROLLED_BACK):
                self._sending.discard(note["pid"])
            elif note["step"] == SESSION:
                self._pids = [*(pid for pid in self._pids if pid != note["pid"]), note["pid"]][-_SESSIONS_REMEMBERED:]
                if note["lock"] is not None:
                    self._locks = [*self._locks, note["lock"]][-_SESSIONS_REMEMBERED:]

    def _thaw(self, worker: Process) -> None:
        if worker.thaws_at is not None:
            worker.thaws_at = None
            worker.send_all(signal.SIGCONT)

    def _leave(self, worker: Process) -> None:
        self._thaw(worker)
        with suppress(ProcessLookupError):
            worker.send(signal.SIGTERM)
        self._leaving.append((worker, time.monotonic() + LEAVES_WITHIN))


def end_session(alias: str, conn_id: int) -> None:
    """End a session of the server. Raises what the server raises."""
    sessions = session_of(alias).server.sessions
    assert sessions is not None
    end = sessions.end_session(conn_id)
    with connections[alias].cursor() as cursor:
        cursor.execute(end.sql, end.params)
