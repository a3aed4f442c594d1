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
from functools import partial
from multiprocessing.connection import wait
from typing import Final

from django.db import Error

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.worker.aftermath import StillLocked, how_ended, settle_after
from django_dbqueue.worker.board import COUNTERS, Board, Retirement
from django_dbqueue.worker.child import be_child
from django_dbqueue.worker.fork import ChildProcess
from django_dbqueue.worker.last_count import count_what_ended
from django_dbqueue.worker.late_claims import LATE_CLAIM, release_unknown
from django_dbqueue.worker.places import Child, ChildPlace, end_the_broken, end_the_overdue
from django_dbqueue.worker.probe_file import LivenessFile
from django_dbqueue.worker.shutdown import StopSignals
from django_dbqueue.worker.sleepers import Sleepers
from django_dbqueue.worker.thread_connections import discard, discard_all
from django_dbqueue.worker.worker_options import (
    EXIT_CUT_OFF,
    EXIT_FAILED,
    EXIT_OK,
    EXIT_RECYCLED,
    EXIT_REFUSED,
    EXIT_REPLACE,
    EXIT_STOPPED,
    WorkerOptions,
)

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
"""Seconds between turns while a child has closed its line and not ended."""
HOLDS_NOTHING: Final = (EXIT_OK, EXIT_STOPPED, EXIT_RECYCLED, EXIT_REFUSED)
"""Exit codes of a child that ends on purpose, when all that it held is settled."""

logger = logging.getLogger("django_dbqueue.worker")


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
        self._sleepers = Sleepers(options.processes)
        self._places = [ChildPlace(index, options.share(index)) for index in range(options.processes)]
        self._totals = dict.fromkeys(COUNTERS, 0)
        self._aftermaths: list[tuple[Child, str, bool]] = []
        self._late_claims: dict[int, float] = {}
        self._deadline: float | None = None
        self._killed = self._gave_up = False
        self._unserved_named = self._cut_off_before_stop = 0
        self._retry_due = 0.0
        self._liveness = LivenessFile(options.liveness_file)

    @property
    def totals(self) -> dict[str, int]:
        """Return the counters of all children, dead ones included."""
        totals = dict(self._totals)
        for child in (child for place in self._places for child in place.children):
            for name in COUNTERS:
                totals[name] += child.board.counter(name)
        return totals

    @property
    def _alive(self) -> list[Child]:
        return [child for place in self._places for child in place.children if child.process is not None]

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
                if not self._alive and self._may_end():
                    break
                self._wait(stop)
                end_the_overdue(self._alive, time.monotonic() - self._options.grace - OVERDUE)
                end_the_broken(self._alive)
                self._bury_the_dead()
                self._let_retire()
                self._try_aftermaths()
                self._release_late_claims()
                self._follow_signals(stop)
                self._progress(self.totals)
                self._liveness.show(child.board for child in self._alive)
            count_what_ended(self._options, self._totals, stop, self._deadline)
        self._liveness.end()
        discard_all()
        was_cut_off = self._aftermaths or self._totals["cut_off"] > self._cut_off_before_stop
        ends_badly = was_cut_off and self._deadline is not None
        return EXIT_FAILED if self._gave_up else EXIT_CUT_OFF if ends_badly else EXIT_OK

    def _may_end(self) -> bool:
        if (self._aftermaths or self._late_claims) and not self._killed:
            return False
        return self._deadline is not None or all(place.is_finished for place in self._places)

    # -- starting -----------------------------------------------------------------------------------------

    def _start_children(self, stop: StopSignals) -> None:
        now = time.monotonic()
        for place in self._places:
            if place.child is None and not place.is_finished and now >= place.start_at and self._deadline is None:
                self._start(place, stop)

    def _start(self, place: ChildPlace, stop: StopSignals) -> None:
        """Fork a child; if the machine has no room for one now, try again later."""
        discard_all()
        predecessor = None if place.retired is None else place.retired.board
        try:
            board = Board(self._options.slots)
            board.expect_retry(self._retry_due)
            board.tidies_at = None if place.board is None else place.board.tidies_at
            board.unserved_named = max(self._unserved_named, 0 if predecessor is None else predecessor.unserved_named)
            seat, started_at = self._sleepers.seat(place.index), time.monotonic()
            process = ChildProcess(
                target=be_child,
                args=(self._options, self._consumers, board, stop),
                kwargs={
                    "seat": seat, "index": place.index, "share": place.share, "predecessor": predecessor,
                },
                name=f"dbqueue-{place.index}",
            )  # fmt: skip
            process.start()
        except (OSError, MemoryError) as error:
            delay = place.backoff.next()
            place.start_at = time.monotonic() + delay
            logger.error("can't start child %s, trying again in %.1f s: %s", place.index, delay, error)
            return
        place.board, place.child = board, Child(place.index, process, board, seat.worker_id, started_at)

    # -- watching -----------------------------------------------------------------------------------------

    def _wait(self, stop: StopSignals) -> None:
        alive = self._alive
        lines = {child.process.sentinel: child for child in alive if child.line_lost_at is None}
        waiting = [place.start_at for place in self._places if place.child is None and not place.is_finished]
        soonest = min(waiting, default=math.inf) if self._deadline is None else math.inf
        is_busy = self._aftermaths or self._late_claims or self._options.drain or self._options.recycles
        is_calm = not is_busy and self._deadline is None
        tick = LINE_TICK if len(lines) < len(alive) else CALM_TICK if is_calm else TICK
        for ready in wait([*lines, stop.fileno()], min(tick, max(0.01, soonest - time.monotonic()))):
            if ready == stop.fileno():
                stop.clear()
            else:
                lines[ready].line_lost_at = time.monotonic()

    def _let_retire(self) -> None:
        for place in self._places:
            place.retire(self._options.grace)
            place.report(time.monotonic())

    def _bury_the_dead(self) -> None:
        for place in self._places:
            for child in place.children:
                if child.process is not None and child.process.exitcode is not None:
                    self._bury(child, place)

    def _bury(self, child: Child, place: ChildPlace) -> None:
        code, board = child.process.exitcode, child.board
        child.process.join()
        child.process = None
        board.mark_overdue(time.monotonic())
        board.note_retirement(Retirement.HAS_ROOM)
        self._sleepers.end(child.worker_id)
        crashed = not board.is_leaving
        if child is place.child:
            place.child = None
            self._plan_restart(place, child, code)
        elif place.child is None:
            place.start_now()  # its end may have made the room that a successor lacked
        if not crashed and code in HOLDS_NOTHING:
            self._take_over(child)
            if code == EXIT_REFUSED and self._deadline is None:
                self._gave_up, self._deadline = True, time.monotonic() + self._options.grace
        else:
            is_replaced = not crashed and (code == EXIT_REPLACE or child.is_killed)
            self._aftermaths.append((child, how_ended(code), self._killed or is_replaced))
            if crashed and not self._killed:
                logger.error("child %s ended by %s", child.index, how_ended(code))

    def _plan_restart(self, place: ChildPlace, child: Child, code: int) -> None:
        """Decide whether another child is started in its place, and when."""
        board = child.board
        if place.share is not None:
            place.share -= board.counter("started")
        crashed = not board.is_leaving
        bounded = self._options.drain or self._options.max_messages is not None
        place.is_finished = (not crashed and code == EXIT_OK and bounded) or place.share == 0
        place.barren = place.barren + 1 if crashed and not board.counter("started") else 0
        if bounded and place.barren >= BARREN and not self._killed:
            logger.error("child %s died %s times before it started a message; giving up", place.index, BARREN)
            place.is_finished = self._gave_up = True
        lived = time.monotonic() - child.started_at > STEADY
        steady = not crashed or lived or board.counter("done") + board.counter("suspended") > 0
        if steady:
            place.backoff.reset()
        place.start_at = time.monotonic() + (0.0 if steady else place.backoff.next())

    def _try_aftermaths(self) -> None:
        """Settle what dead children held, the latest first: an earlier one may have to wait for its session's end.

        If the database is away, try again later (or leave it to the leases).
        """
        for entry in self._aftermaths[::-1]:
            child, how, cut_off = entry
            try:
                self._settle_after(child.worker_id, self._consumers, child.board, how=how, cut_off=cut_off)
                self._take_over(child)
                self._aftermaths.remove(entry)
            except Error as error:
                logger.warning("can't settle the messages of a dead child yet: %s", " ".join(str(error).split()))
                if not isinstance(error, StillLocked):
                    discard(self._session.using)
                    return
            except Exception:
                logger.exception("can't settle the messages of a dead child; they come back when their leases expire")
                self._take_over(child)
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

    def _take_over(self, child: Child) -> None:
        """Keep what a child that has ended has counted, when its last retry is due, and whether its claim is open."""
        board, place = child.board, self._places[child.index]
        for name in COUNTERS:
            self._totals[name] += board.counter(name)
        self._retry_due = max(self._retry_due, board.retry_due)
        self._unserved_named = max(self._unserved_named, board.unserved_named)
        if board.is_claiming:
            self._late_claims[child.worker_id] = time.monotonic() + LATE_CLAIM
        board.note_retirement(Retirement.HAS_ENDED)
        if place.retired is child:
            place.retired = None

    # -- stopping -----------------------------------------------------------------------------------------

    def _follow_signals(self, stop: StopSignals) -> None:
        begins = bool(stop.received) and self._deadline is None
        if begins:
            self._deadline = time.monotonic() + self._options.grace
            self._cut_off_before_stop = self.totals["cut_off"]
        if self._deadline is not None and not self._killed:
            self._signal_children(signal.SIGTERM)  # at every turn: a child that was just forked misses the first one
        if begins:  # once the children were signalled, so that whoever reads it knows that they were
            text = "stopping: running handlers have %g s to finish; a second signal cuts them off"
            logger.info(text, self._options.grace)
        if not self._killed and (stop.received > 1 or time.monotonic() >= (self._deadline or math.inf)):
            self._killed = True  # children first, then what they held: two runs never overlap
            self._signal_children(signal.SIGKILL)

    def _signal_children(self, number: signal.Signals) -> None:
        for child in self._alive:
            if child.process.exitcode is None:
                os.kill(child.process.pid, number)
