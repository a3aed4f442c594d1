"""One run: a contestant, a fault, and what was lost, doubled, or left hanging."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.faults import handler
from benchmarks.queue.peers.processes import Child
from benchmarks.queue.processes import ChildFailed
from benchmarks.queue.sessions import connect, execute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KILL, WORKER, FREEZE, SESSION, RESTART, FAIL = "kill", "worker", "freeze", "session", "restart", "fail"
FAULTS: Final = {
    KILL: "SIGKILL to one process of a worker",
    WORKER: "SIGKILL to a whole worker",
    FREEZE: "SIGSTOP to a whole worker for 12 s",
    SESSION: "three database sessions ended on the server",
    RESTART: "SIGTERM to a worker, SIGKILL after 10 s",
    FAIL: "each tenth handler fails once, before its commit",
}
AGAIN: Final = "again"
"""No fault to count after, but a measurement: how soon a message runs again whose worker is killed as it handles it."""
TIMES: Final = 3
"""How many such messages there are, of which each is killed when the one before runs again."""
WORKERS: Final = 2
GAP: Final = 0.07
"""Seconds between two messages of the one sender."""
EVERY: Final = 3.0
FROZEN: Final = 12.0
LEAVES: Final = 10.0
QUIET: Final = 30.0
"""Seconds without a change after which what is left is called hung; all settings let a queue recover sooner."""
LONGEST_WAIT: Final = 300.0
"""Seconds after which what is left is called hung though something still changes: a task may run for ever."""
_WARM_UP: Final = 4.0
_SELDOM: Final = 0.3
_PATIENCE: Final = 60.0
_FAR: Final = 1_000_000
_CHECK_EVERY: Final = 2.0
_TICK: Final = 0.1


@dataclass(frozen=True, slots=True)
class Score:
    """What came of a run."""

    injected: int
    sent: int
    lost: int
    """Stored, says the sender, and neither done, nor waiting, nor recorded as failed."""
    doubled: int
    """Rows that a handler committed beyond one for each message."""
    hung: int
    """Unfinished when nothing had changed for long, or after the longest wait."""
    failed: int
    """Recorded as failed for good, without a row."""
    exits: int
    """Workers that ended without being told to, and were started again."""


def score(stored: set[int], effects: Sequence[int], *, left: set[int], failed: set[int]) -> dict[str, int]:
    """Compare what was stored with what handlers have committed, and with what the queue still knows of."""
    times = Counter(effects)
    without = stored - set(times)
    return {
        "sent": len(stored),
        "lost": len(without - left - failed),
        "doubled": sum(count - 1 for count in times.values()),
        "hung": len(left),
        "failed": len((failed & without) - left),
    }


class Run(ExitStack):
    """The processes of one run, which end with its block."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], place: str, home: Path, seed: int) -> None:
        super().__init__()
        self._command, self._place, self._home = command, place, home
        self._environ = {name: value for name, value in environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        self._environ |= {"DBQUEUE_BENCH_URL": place, handler.DIRECTORY: str(home)}
        self._dice = random.Random(seed)
        self._workers: list[Child] = []
        self._senders: list[Child] = []
        self._exits = 0
        self._gap = GAP

    def run(self, fault: str, seconds: float) -> Score:
        """Send, work, and let the fault happen again and again; then wait until all is done, or nothing changes."""
        if fault == FAIL:
            self._environ[handler.FAILS] = "1"
        self._begin()
        self._wait(_WARM_UP)
        injected = self._inject(fault, seconds)
        stored = set().union(*map(_stored, self._senders))
        left, failed = self._settled()
        with closing(connect(self._place)) as session:
            effects = [int(number) for (number,) in execute(session, "SELECT number FROM effects")]
        return Score(injected=injected, exits=self._exits, **score(stored, effects, left=left, failed=failed))

    def run_again(self) -> list[float]:
        """How many seconds after the end of a worker the message that it handled runs again; none where none did."""
        self._environ[handler.KILLED] = "1"
        self._begin(_SELDOM)
        self._wait(_WARM_UP)
        found: list[float] = []
        while len(found) < TIMES:
            number, killed = self._kill_a_handler()
            again = self._home / f"again-{number}"
            if not self._comes(again, QUIET):
                return []
            found.append(float(again.read_text()) - killed)
        return found

    def _kill_a_handler(self) -> tuple[int, float]:
        """With its whole worker; which message it had, and when it was killed, in seconds since the epoch."""
        (self._home / handler.WANTED).touch()
        victim = self._home / handler.VICTIM
        if not self._comes(victim, _PATIENCE):
            raise AssertionError(f"no message was handled within {_PATIENCE:g} s")
        number, pid = map(int, victim.read_text().split())
        victim.unlink()
        at = next((at for at, worker in enumerate(self._workers) if pid in worker.members()), None)
        if at is None:
            raise AssertionError(f"message {number} was handled by process {pid}, which belongs to no worker")
        killed = time.time()
        self._kill_worker(at)
        return number, killed

    def _comes(self, file: Path, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not file.exists() and time.monotonic() < until:
            self._wait(_TICK)
        return file.exists()

    def _begin(self, gap: float = GAP) -> None:
        self._gap = gap
        self._ask("set_up")
        with closing(connect(self._place)) as session:
            execute(session, handler.TABLE)
        self._workers = [self._start("work") for _ in range(WORKERS)]
        self._start_sender()

    def _start(self, operation: str, *numbers: float) -> Child:
        child = Child([*self._command, operation, *map(str, numbers)], self._environ, self._home / f"{operation}.log")
        self.callback(child.end)
        return child

    def _start_sender(self) -> None:
        """Numbers begin anew far beyond those of a sender that has ended with its session."""
        self._senders.append(self._start("send", 1 + _FAR * len(self._senders), self._gap))

    def _ask(self, operation: str) -> dict[str, Any]:
        child = self._start(operation)
        answer = child.heard()
        child.end()
        return answer

    def _inject(self, fault: str, seconds: float) -> int:
        acts = {
            KILL: self._kill,
            WORKER: lambda: self._kill_worker(self._dice.randrange(WORKERS)),
            FREEZE: self._freeze,
            SESSION: self._end_sessions,
            RESTART: self._restart,
        }
        end, injected = time.monotonic() + seconds, 0
        while fault in acts and time.monotonic() < end:
            acts[fault]()
            injected += 1
            self._wait(EVERY)
        self._wait(end - time.monotonic())
        return injected

    def _wait(self, seconds: float, *, sending: bool = True) -> None:
        """Start again who ended, as systemd would."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if sending and not self._senders[-1].members():
                self._start_sender()
            for at, worker in enumerate(self._workers):
                if not worker.members():
                    self._exits += 1
                    self._workers[at] = self._start("work")
            time.sleep(_TICK)

    # -- the faults ---------------------------------------------------------------------------------------

    def _kill(self) -> None:
        worker = self._dice.choice(self._workers)
        members = sorted(worker.members())
        _signal(self._dice.choice(members[1:] or members), signal.SIGKILL)

    def _kill_worker(self, at: int) -> None:
        for member in self._workers[at].members():
            _signal(member, signal.SIGKILL)
        self._workers[at] = self._start("work")

    def _freeze(self) -> None:
        members = self._workers[0].members()
        for member in members:
            _signal(member, signal.SIGSTOP)
        time.sleep(FROZEN)
        for member in members:
            _signal(member, signal.SIGCONT)

    def _end_sessions(self) -> None:
        with closing(connect(self._place)) as session:
            ask = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            there = sorted(int(pid) for (pid,) in execute(session, ask))
            for pid in self._dice.sample(there, min(3, len(there))):
                execute(session, f"SELECT pg_terminate_backend({pid})")

    def _restart(self) -> None:
        at = self._dice.randrange(WORKERS)
        worker, self._workers[at] = self._workers[at], self._start("work")
        _signal(worker.pid, signal.SIGTERM)
        until = time.monotonic() + LEAVES
        while worker.members() and time.monotonic() < until:
            time.sleep(_TICK)
        worker.end()

    # -- the end ------------------------------------------------------------------------------------------

    def _settled(self) -> tuple[set[int], set[int]]:
        """Wait until nothing is left, or nothing changes any more; return what is left, and what has failed."""
        seen, since = None, time.monotonic()
        until = since + LONGEST_WAIT
        while True:
            found = self._ask("unfinished")
            if not found["left"]:
                return set(), set(found["failed"])
            if found != seen:
                seen, since = found, time.monotonic()
            if (now := time.monotonic()) - since > QUIET or now > until:
                return set(found["left"]), set(found["failed"])
            self._wait(_CHECK_EVERY, sending=False)


def _stored(sender: Child) -> set[int]:
    """End the sender, and read which messages it was told are stored; of the one it is at, nobody knows."""
    _signal(sender.pid, signal.SIGKILL)
    stored = set()
    with suppress(ChildFailed):
        while True:
            stored.add(int(sender.heard()["stored"]))
    return stored


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
