"""A child: its main thread claims, hands out, settles and decides how long to wait; its other threads run handlers."""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import time
from typing import Any, Final

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.liveness.presence import Presence
from django_dbqueue.worker import last_words
from django_dbqueue.worker.async_side import AsyncSide
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.cancellations import Cancellations
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.detached import Detachment
from django_dbqueue.worker.drain import is_drained
from django_dbqueue.worker.execution import TIMED_OUT, Verdict, backoff, timed_out
from django_dbqueue.worker.feeder import Feeder
from django_dbqueue.worker.handler_threads import start_threads
from django_dbqueue.worker.handover import Handover
from django_dbqueue.worker.heartbeat import Heartbeat
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.late_claims import LateClaims
from django_dbqueue.worker.maintenance import Maintenance
from django_dbqueue.worker.pace import Listener, Periodic
from django_dbqueue.worker.recycling import Recycling
from django_dbqueue.worker.rest import Rest
from django_dbqueue.worker.settler import Settler
from django_dbqueue.worker.sleepers import Seat
from django_dbqueue.worker.thread_connections import discard_all, leave_demoted
from django_dbqueue.worker.timeouts import Timeouts
from django_dbqueue.worker.timetable import Timetable
from django_dbqueue.worker.trouble import Trouble
from django_dbqueue.worker.worker_options import EXIT_FAILED, EXIT_OK, EXIT_REPLACE, EXIT_STOPPED, WorkerOptions

GATHER: Final = 0.01
"""Seconds that finished messages wait for others to be acked with, while threads are busy."""
PROOF_WAIT: Final = 1.0
"""Seconds that a starting child waits for the proof of its session."""
TURN: Final = 0.001
"""Seconds for which a handler may keep the interpreter from the main thread, which has to feed all of them."""

logger = logging.getLogger("django_dbqueue.worker")


class ChildLoop:
    """One child's loop. ``share`` is how many messages it may start (None: no limit).

    ``predecessor`` is the board of a child that retired from its place, and may still run.
    """

    def __init__(
        self,
        options: WorkerOptions,
        consumers: dict[str, Consumer],
        board: Board,
        seat: Seat,
        share: int | None,
        detachment: Detachment,
        predecessor: Board | None,
    ) -> None:
        self._options, self._board, self._detachment = options, board, detachment
        self._session = session = options.session
        self._queues = queues = tuple(consumers)
        self._presence = Presence(session, seat.worker_id, queues, options.threads)
        collects = any(each.batch_wait for each in consumers.values())
        self._holding = holding = Holding(board, waits=collects and not options.drain and options.max_messages is None)
        self._heartbeat = Heartbeat(session, self._presence, holding, seat, self._orphaned)
        self._settler = Settler(session, holding, board)
        self._handover = Handover(holding)
        self._async_side = AsyncSide(
            options, consumers, board, holding, self._handover, detachment,
            ends_at=self._ends_at, failed=self._replace, changed=self.wake,
        )  # fmt: skip
        self._late_claims = LateClaims(session, queues, seat.worker_id, holding, board)
        self._watches: tuple[Periodic, ...] = (
            Timeouts(consumers.values(), holding, board, self._replace),
            Cancellations(holding, options.grace, self._replace),
            self._late_claims,
        )
        self._maintenance = Maintenance(session, queues, board)
        self._timetable = Timetable(session, options.plans, options.declared_at)
        self._recycling = Recycling(options, board, share, predecessor)
        self._feeder = Feeder(
            options, consumers, holding, seat.worker_id, self._recycling.share,
            idle_poll=self._maintenance.idle_poll, settler=self._settler,
            before_begin=self._presence.begin_holding, unready=self._async_side.unready,
        )  # fmt: skip
        self._upkeep: tuple[Periodic, ...] = (self._timetable, self._maintenance)
        self._seat, self._rest = seat, Rest(seat, options, self._handover, self._maintenance, self._timetable)
        self._trouble = Trouble(session)
        self._stopping = False
        self._stop_deadline = self._orphan_deadline = self._replace_deadline = math.inf
        self._raw: Any = None
        self._listener: Listener | None = None

    # -- from outside -------------------------------------------------------------------------------------

    def stop(self, *_: object) -> None:
        """Claim no more, release what has not started, let running handlers finish (a signal handler too)."""
        if not self._stopping:
            self._stop_deadline = time.monotonic() + self._options.grace
        self._stopping = True
        self._handover.ring()

    def wake(self) -> None:
        """Check for messages now."""
        self._rest.stir()
        self._feeder.hurry()
        self._handover.ring()

    def _orphaned(self) -> None:
        if self._orphan_deadline == math.inf:
            logger.error("the supervisor is gone; finishing within %g s", self._options.grace)
            self._orphan_deadline = time.monotonic() + self._options.grace
            self.stop()

    # -- the loop -----------------------------------------------------------------------------------------

    def run(self) -> int:
        """Work until told to stop, drained or at the limit; return the exit code.

        End the process if a thread hangs, or if the loop itself fails: the supervisor, which can read the board,
        settles what was held and starts another child. Living on without a loop would hold the messages forever.
        """
        try:
            return self._run()
        except BaseException:
            logger.critical("a child's main thread failed, so its process exits", exc_info=True)
            last_words.flush()
            os._exit(EXIT_FAILED)

    def _run(self) -> int:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the supervisor decides
        signal.signal(signal.SIGTERM, self.stop)
        sys.setswitchinterval(min(TURN, sys.getswitchinterval()))
        start_threads(self._options.threads, self._holding, self._handover, self._detachment, failed=self._replace)
        self._async_side.start()
        self._listener = Listener.start_where_possible(self._session, self._queues, self.wake)
        self._rest.listen(self._listener)
        self._heartbeat.start()
        if self._trouble.spares(self._connect):
            self._presence.judged.wait(PROOF_WAIT)  # so that a claimer is known to live, or known to be unprovable
        self._recycling.begin()
        while not self._has_ended():
            self._turn()
        if not len(self._holding):
            self._recycling.end()
        self._holding.close()
        if self._listener is not None:
            self._listener.stop()
        has_left = self._async_side.stop()
        self._board.note_leaving()
        if self._holding.running() or not has_left:
            # A thread that hangs can't be ended. Its supervisor settles what it holds and removes the worker's row: an
            # open transaction of that thread may have locked everything (on SQLite)
            last_words.flush()
            os._exit(EXIT_REPLACE)
        self._heartbeat.stop()
        self._trouble.spares(self._presence.end)
        discard_all()
        if self._is_replaced:
            return EXIT_REPLACE
        return EXIT_STOPPED if self._stopping else self._recycling.exit_code or EXIT_OK

    def _turn(self) -> None:
        """Settle, do maintenance, claim, wait; or sleep while another child asks for this one."""
        now = self._board.turned_at = time.monotonic()
        self._async_side.run(now)
        if self._rest.sleeps:
            self._rest.sleep(self._async_side.until_next(now))
        elif self._trouble.spares(lambda: self._work(now)):
            self._rest.begin(is_calm=self._is_calm(now))
            if not self._rest.sleeps:
                self._wait(self._until_next(time.monotonic()))
        else:
            self._wait(self._trouble.pause())

    def _work(self, now: float) -> None:
        self._seat.share_refusal(self._session.using)
        leave_demoted()  # an idle worker writes seldom, and would notice late
        self._maintenance.leave_ended(now)
        if not self._trouble.is_connected or self._session.connection.connection is not self._raw:
            self._connect()
        self._settler.release(self._holding.cut_off())
        self._settler.flush_all_but_acks()  # acks share the commit of the next claim
        for watch in self._watches:
            watch.run(now)
        self._recycling.run(now, self._feeder)
        if self._feeder.is_starved and not self._is_replaced:
            logger.error("not even one message fits into the memory that is left; another child takes over")
            self._replace()
        if releases := self._releases(now):
            self._settler.release(self._feeder.give_up())
        if not self._is_leaving:
            # before maintenance checks what is ready, because it may enqueue
            self._timetable.added = self._maintenance.idle_poll.added
            self._timetable.run(now)
            if self._maintenance.is_due(now):
                self._settler.flush()  # and don't wait for anything that may take long
                self._maintenance.run(now)
            if self._recycling.may_claim and not releases:
                self._claim(now)
        self._settler.flush()

    def _claim(self, now: float) -> None:
        saw_all = self._recycling.is_alone  # before the claim: what a predecessor runs may enqueue more
        self._board.is_claiming = True  # still set after an error, which may have hidden a commit
        self._feeder.run(now)
        self._board.is_claiming = self._late_claims.are_expected
        if not saw_all:
            self._feeder.empty_at = None

    def _has_ended(self) -> bool:
        if time.monotonic() >= min(self._orphan_deadline, self._replace_deadline):
            return True
        if self._is_replaced:
            hung = all(each.hangs for each in self._holding.running())
            return hung and not (len(self._settler) or self._handover)
        if len(self._holding) or len(self._settler) or self._handover:
            return False
        ends = self._stopping or self._recycling.ends(self._feeder, self._maintenance)
        return ends or (self._options.drain and is_drained(self._feeder.empty_at, self._recycling.retry_due))

    def _is_calm(self, now: float) -> bool:
        """Return whether there is nothing to do but to wait for messages, and none has come for a while."""
        if len(self._holding) or len(self._settler) or self._handover or self._async_side.unready():
            return False
        if self._options.drain or self._releases(now) or self._late_claims.are_expected:
            return False
        return self._recycling.is_settled and self._feeder.is_calm and not self._maintenance.has_more

    def _ends_at(self) -> float:
        return min(self._stop_deadline, self._orphan_deadline, self._replace_deadline)

    def _releases(self, now: float) -> bool:
        return self._is_leaving or self._recycling.releases(now)

    @property
    def _is_leaving(self) -> bool:
        return self._stopping or self._is_replaced

    @property
    def _is_replaced(self) -> bool:
        return self._replace_deadline < math.inf

    def _replace(self) -> None:
        """Claim no more, let running handlers finish, then exit so that another child takes over."""
        if not self._is_replaced:
            self._replace_deadline = time.monotonic() + self._options.grace
            self._handover.ring()

    # -- waiting ------------------------------------------------------------------------------------------

    def _until_next(self, now: float) -> float:
        """Return for how long nothing will be due, if nothing arrives."""
        parts = (self._async_side, *self._watches, *(() if self._is_leaving else self._upkeep))
        if self._recycling.may_claim and not self._releases(now):
            parts += (self._feeder,)
        return max(0.0, min(self._recycling.until_next(now), *(part.until_next(now) for part in parts)))

    def _wait(self, seconds: float) -> None:
        """Take in what the threads finished; while they are busy, wait a moment for more to settle at once."""
        if not self._handover:
            self._handover.sleep(seconds, 1)
        if self._handover and self._holding.waiting:
            self._handover.sleep(GATHER, max(1, len(self._holding) // 2))
        for delivery, verdict, seconds in self._handover.take_all():
            self._take_in(delivery, verdict, seconds)

    def _take_in(self, delivery: Delivery, verdict: Verdict, seconds: float) -> None:
        message = delivery.message
        if delivery.timed_out and not message.settled and verdict.exception != TIMED_OUT:
            text = timed_out(delivery.consumer, delivery.options, message)
            verdict = Verdict("nack", backoff(delivery.options, delivery.reads), text, exception=TIMED_OUT)
        self._feeder.learn(seconds / delivery.batch_size, delivery.consumer.kind)
        self._settler.add(delivery, verdict, seconds)
        self._maintenance.has_ended_something = True

    def _connect(self) -> None:
        """Write the session into the worker's row; check for claims whose reply was lost."""
        self._presence.connect(held=len(self._holding))
        self._heartbeat.beat_now()
        if is_again := self._raw is not None:
            self._seat.wake_all()  # their sessions may have ended as well, and those that have vouch for nobody
            if self._listener is not None:
                self._listener.relisten()
        self._raw = self._session.connection.connection
        self._late_claims.check()
        if self._trouble.lasts or is_again:
            self._maintenance.hold_rescues(time.monotonic())
            self._maintenance.hasten()  # what the last poll found, the next claim may not have got
        self._trouble.is_connected = True
