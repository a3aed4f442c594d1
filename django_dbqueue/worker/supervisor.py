"""The supervisor: starts the children, settles what dead ones held, restarts them, and stops them in order.

It has one thread and closes its connections before each fork, so that children share nothing with it but their boards.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from typing import Any, Final

from django.db import Error

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.databases.statement import new_token
from django_dbqueue.worker.aftermath import StillLocked, how_ended, settle_after
from django_dbqueue.worker.board import COUNTERS, Board
from django_dbqueue.worker.child import be_child
from django_dbqueue.worker.fork import ChildProcess
from django_dbqueue.worker.last_count import count_what_ended
from django_dbqueue.worker.late_claims import LATE_CLAIM, release_unknown
from django_dbqueue.worker.pace import Backoff
from django_dbqueue.worker.probe_file import LivenessFile
from django_dbqueue.worker.shutdown import StopSignals
from django_dbqueue.worker.thread_connections import discard, discard_all
from django_dbqueue.worker.worker_options import EXIT_CUT_OFF, EXIT_FAILED, EXIT_OK, EXIT_STOPPED, WorkerOptions

TICK: Final = 0.2
"""Seconds between turns while something has to end, or a drain is watched; a child's end triggers a turn at once."""
CALM_TICK: Final = 1.0
"""The same while all goes well, because these turns are part of an idle worker's cost."""
BARREN: Final = 5
"""Children that may die in a row before starting a message, if the worker is to end by itself."""
STEADY: Final = 10.0
"""Seconds that a child must have lived so that its death doesn't delay the next start."""
OVERDUE: Final = 2.0
"""Seconds after a timeout and --grace that a child has to end by itself."""
LINE_TICK: Final = 0.02
LINE_GRACE: Final = 0.2
"""Seconds in which a child that closed its line by ending must end. One that lives on is broken."""

logger = logging.getLogger("django_dbqueue.worker")


@dataclass(slots=True)
class Child:
    """A slot for a child process, its current process, and the state of its restarts."""

    index: int
    share: int | None
    process: Any = None
    board: Board | None = None
    worker_id: int = 0
    started_at: float = 0.0
    start_at: float = 0.0
    line_lost_at: float | None = None
    is_finished: bool = False
    barren: int = 0
    backoff: Backoff = field(default_factory=lambda: Backoff(0.1, 30.0))


class Supervisor:
    """A worker's parent process, which runs until it is drained, at its limit or told to stop."""

    def __init__(
        self,
        options: WorkerOptions,
        consumers: dict[str, Consumer],
        *,
        progress: Callable[[dict[str, int]], None],
    ) -> None:
        self._options = options
        self._session = options.session
        self._settle_after = partial(settle_after, options.session, charges=not options.is_reloaded)
        self._consumers = consumers
        self._queues = tuple(consumers)
        self._progress = progress
        self._children = [Child(index, options.share(index)) for index in range(options.processes)]
        self._totals = dict.fromkeys(COUNTERS, 0)
        self._aftermaths: list[tuple[Board, int, str, bool]] = []
        self._late_claims: dict[int, float] = {}
        self._deadline: float | None = None
        self._killed = self._gave_up = False
        self._cut_off = self._unserved_named = 0
        self._retry_due = 0.0
        self._liveness = LivenessFile(options.liveness_file)

    @property
    def totals(self) -> dict[str, int]:
        """Return the counters of all children, dead ones included."""
        totals = dict(self._totals)
        for child in self._children:
            if child.board is not None:
                for name in COUNTERS:
                    totals[name] += child.board.counter(name)
        return totals

    def run(self) -> int:
        """Run to the end and return the exit code."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if SIG_IGN was inherited, no child's end is reported
        with StopSignals() as stop:
            logger.info(  # from here on it can be told to stop
                "worker started: queues %s, %s, database %s",
                ", ".join(self._queues), self._options.size, self._session.using,
            )  # fmt: skip
            while True:
                self._start_children(stop)
                if all(child.process is None for child in self._children) and self._may_end():
                    break
                self._wait(stop)
                self._end_the_overdue()
                self._end_the_broken()
                self._bury_the_dead()
                self._try_aftermaths()
                self._release_late_claims()
                self._follow_signals(stop)
                self._progress(self.totals)
                self._liveness.show(child.board for child in self._children if child.board is not None)
            count_what_ended(self._options, self._totals, stop, self._deadline)
        self._liveness.end()
        discard_all()
        was_cut_off = self._cut_off or self._totals["cut_off"]
        return EXIT_FAILED if self._gave_up else EXIT_CUT_OFF if was_cut_off else EXIT_OK

    def _may_end(self) -> bool:
        if (self._aftermaths or self._late_claims) and not self._killed:
            return False
        return self._deadline is not None or all(child.is_finished for child in self._children)

    # -- starting -----------------------------------------------------------------------------------------

    def _start_children(self, stop: StopSignals) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.process is None and not child.is_finished and now >= child.start_at and self._deadline is None:
                self._start(child, stop)

    def _start(self, child: Child, stop: StopSignals) -> None:
        """Fork a child; if the machine has no room for one now, try again later."""
        discard_all()
        try:
            child.board = Board(self._options.slots)
            child.board.expect_retry(self._retry_due)
            child.board.unserved_named = self._unserved_named
            child.worker_id = new_token()
            child.started_at = time.monotonic()
            process = ChildProcess(
                target=be_child,
                args=(self._options, self._consumers, child.board, stop),
                kwargs={"worker_id": child.worker_id, "index": child.index, "share": child.share},
                name=f"dbqueue-{child.index}",
            )
            process.start()
        except (OSError, MemoryError) as error:
            child.board = None
            delay = child.backoff.next()
            child.start_at = time.monotonic() + delay
            logger.error("can't start child %s, trying again in %.1f s: %s", child.index, delay, error)
            return
        child.process, child.line_lost_at = process, None

    # -- watching -----------------------------------------------------------------------------------------

    def _wait(self, stop: StopSignals) -> None:
        alive = [child for child in self._children if child.process is not None]
        lines = {child.process.sentinel: child for child in alive if child.line_lost_at is None}
        waiting = [child.start_at for child in self._children if child.process is None and not child.is_finished]
        soonest = min(waiting, default=float("inf"))
        is_calm = not (self._aftermaths or self._late_claims or self._options.drain) and self._deadline is None
        tick = LINE_TICK if len(lines) < len(alive) else CALM_TICK if is_calm else TICK
        for ready in wait([*lines, stop.fileno()], min(tick, max(0.01, soonest - time.monotonic()))):
            if ready == stop.fileno():
                stop.clear()
            else:
                lines[ready].line_lost_at = time.monotonic()

    def _end_the_broken(self) -> None:
        """Kill a child that lives on without its line: a handler has closed descriptors, the database's among them."""
        for child in self._children:
            lost_at = child.line_lost_at
            if lost_at is None or child.process is None or child.process.exitcode is not None:
                continue
            if time.monotonic() - lost_at > LINE_GRACE:
                logger.error(
                    "child %s has closed file descriptors that its handler didn't open, and is killed (does a "
                    "handler call os.closerange?)",
                    child.index,
                )
                os.kill(child.process.pid, signal.SIGKILL)
                child.line_lost_at = math.inf

    def _end_the_overdue(self) -> None:
        """Kill a child whose hung handler keeps it from ending: no other thread gets to run, or SQLite stays locked."""
        moment = time.monotonic() - self._options.grace - OVERDUE
        for child in self._children:
            board = child.board
            if board is not None and not board.is_leaving and board.is_overdue(moment):
                logger.warning("child %s can't stop a handler that ran past its timeout, and is killed", child.index)
                board.note_leaving()
                os.kill(child.process.pid, signal.SIGKILL)

    def _bury_the_dead(self) -> None:
        for child in self._children:
            if child.process is not None and child.process.exitcode is not None:
                self._bury(child)

    def _bury(self, child: Child) -> None:
        code, board = child.process.exitcode, child.board
        assert board is not None
        child.process.join()
        child.process = None
        board.mark_overdue(time.monotonic())
        if child.share is not None:
            child.share -= board.counter("started")
        child.board = None
        crashed = not board.is_leaving
        bounded = self._options.drain or self._options.max_messages is not None
        child.is_finished = (not crashed and code == EXIT_OK and bounded) or child.share == 0
        child.barren = child.barren + 1 if crashed and not board.counter("started") else 0
        if bounded and child.barren >= BARREN and not self._killed:
            logger.error("child %s died %s times before it started a message; giving up", child.index, BARREN)
            child.is_finished = self._gave_up = True
        if not crashed and code in (EXIT_OK, EXIT_STOPPED):
            self._take_over(board, child.worker_id)
        else:
            self._aftermaths.append((board, child.worker_id, how_ended(code), self._killed))
            if crashed and not self._killed:
                logger.error("child %s ended by %s", child.index, how_ended(code))
        lived = time.monotonic() - child.started_at > STEADY
        steady = not crashed or lived or board.counter("done") + board.counter("suspended") > 0
        if steady:
            child.backoff.reset()
        child.start_at = time.monotonic() + (0.0 if steady else child.backoff.next())

    def _try_aftermaths(self) -> None:
        """Settle what dead children held, the latest first: an earlier one may have to wait for its session's end.

        If the database is away, try again later (or leave it to the leases).
        """
        for entry in self._aftermaths[::-1]:
            board, worker_id, how, cut_off = entry
            try:
                running = self._settle_after(worker_id, self._consumers, board, how=how, cut_off=cut_off)
                self._cut_off += running if cut_off else 0
                self._take_over(board, worker_id)
                self._aftermaths.remove(entry)
            except Error as error:
                logger.warning("can't settle the messages of a dead child yet: %s", " ".join(str(error).split()))
                if not isinstance(error, StillLocked):
                    discard(self._session.using)
                    return
            except Exception:
                logger.exception("can't settle the messages of a dead child; they come back when their leases expire")
                self._take_over(board, worker_id)
                self._aftermaths.remove(entry)

    def _release_late_claims(self) -> None:
        """Check what became of the last claims of the dead; a claim that was sent may still be committed."""
        try:
            for worker_id, until in list(self._late_claims.items()):
                found = release_unknown(self._session, self._queues, worker_id)
                if found or time.monotonic() >= until:
                    del self._late_claims[worker_id]
        except Error:
            discard(self._session.using)

    def _take_over(self, board: Board, worker_id: int) -> None:
        """Keep what a previous board has counted, when its last retry is due, and whose last claim is open."""
        for name in COUNTERS:
            self._totals[name] += board.counter(name)
        self._retry_due = max(self._retry_due, board.retry_due)
        self._unserved_named = max(self._unserved_named, board.unserved_named)
        if board.is_claiming:
            self._late_claims[worker_id] = time.monotonic() + LATE_CLAIM

    # -- stopping -----------------------------------------------------------------------------------------

    def _follow_signals(self, stop: StopSignals) -> None:
        begins = bool(stop.received) and self._deadline is None
        if begins:
            self._deadline = time.monotonic() + self._options.grace
        if self._deadline is not None and not self._killed:
            self._signal_children(signal.SIGTERM)  # at every turn: a child that was just forked misses the first one
        if begins:  # once the children were signalled, so that whoever reads it knows that they were
            logger.info("stopping: running handlers have %g s to finish", self._options.grace)
        if not self._killed and (stop.received > 1 or time.monotonic() >= (self._deadline or math.inf)):
            self._killed = True  # children first, then what they held: two runs never overlap
            self._signal_children(signal.SIGKILL)

    def _signal_children(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.process is not None and child.process.exitcode is None:
                os.kill(child.process.pid, number)
