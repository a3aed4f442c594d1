"""What the main thread does about the event loop, which can't be trusted to: cancel, name what blocks it, give up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from django_dbqueue.worker.board import Board, SlotState
from django_dbqueue.worker.coroutines import CANCEL, LOST, RELOAD, STOP, TIMEOUT, CoroutineJob, EventLoop
from django_dbqueue.worker.holding import CANCEL_PATIENCE
from django_dbqueue.worker.stuck import announce_stuck
from django_dbqueue.worker.worker_options import WorkerOptions

CHECKED_EVERY: Final = 0.25
"""Seconds between checks while coroutines run."""
BLOCKED: Final = 1.0
"""Seconds without an answer after which the loop is called blocked; then twice as many, and so on."""
LAST_MOMENTS: Final = 1.0
"""Seconds before the end of --grace in which cancelled coroutines clean up, or half of it if that is less."""

logger = logging.getLogger("django_dbqueue.worker")


class LoopWatch:
    """A watch on an event loop. ``ends_at`` returns when this child must end; ``replace`` has it replaced."""

    def __init__(
        self,
        loop: EventLoop,
        board: Board,
        ends_at: Callable[[], float],
        replace: Callable[[], None],
        options: WorkerOptions,
    ) -> None:
        self._loop = loop
        self._board = board
        self._ends_at = ends_at
        self._last_moments = min(LAST_MOMENTS, options.grace / 2)
        self._stop = RELOAD if options.is_reloaded else STOP
        self._replace = replace
        self._check_at = 0.0
        self._pinged_at: float | None = None
        self._report_after = BLOCKED
        self._culprit = ""

    def run(self, now: float) -> None:
        """Cancel what must not continue, and report what doesn't obey."""
        stop_at = self._ends_at() - self._last_moments
        if now < min(self._check_at, stop_at):
            return
        jobs = self._loop.jobs()
        for job in jobs:
            if job.reason is None and not job.delivery.finished:
                if job.delivery.is_lost:
                    self._loop.cancel(job, LOST if job.delivery.cancelled_at is None else CANCEL)
                elif now >= stop_at:
                    self._loop.cancel(job, self._stop)
            self._give_up_if_hung(job, now)
        self._feel_pulse(now, bool(jobs))
        self._check_at = now + CHECKED_EVERY if jobs else 0.0

    def until_next(self, now: float) -> float:
        """Return for how many seconds nothing has to be checked."""
        return max(0.0, self._check_at - now) if self._check_at else 1.0

    def _give_up_if_hung(self, job: CoroutineJob, now: float) -> None:
        delivery = job.delivery
        since = job.cancelled_at or delivery.over_at
        if not since or now < since + CANCEL_PATIENCE or delivery.abandoned or delivery.finished:
            return
        reason = job.reason or TIMEOUT
        delivery.abandoned = True
        delivery.lease = 0.0  # the heartbeat extends it no more
        if reason == TIMEOUT:
            delivery.timed_out = True
            if delivery.slot is not None:
                self._board.mark(delivery.slot, SlotState.TIMED_OUT)
        logger.error(
            "message %s: %s still runs %.1f s after %s: %s. Its lease is no longer extended, and its child is replaced",
            delivery.message.pk, delivery.consumer.name, now - since, reason,
            _why(job),
        )  # fmt: skip
        self._replace()
        announce_stuck(delivery, reason)

    def _feel_pulse(self, now: float, is_busy: bool) -> None:
        """Ask the loop to answer, and name who keeps it from answering."""
        if self._pinged_at is None:
            if is_busy:
                self._pinged_at = now
                self._loop.call(self._answer)
            return
        if now - self._pinged_at < self._report_after:
            return
        job, place = self._loop.current()
        self._culprit = (
            f"message {job.delivery.message.pk}, {job.delivery.consumer.name}" if job else "a task or callback"
        )
        logger.warning(
            "the event loop has been blocked for %.1f s by %s, at %s: no other coroutine of this child runs now. "
            "Await what takes long, or run it by asyncio.to_thread()",
            now - self._pinged_at, self._culprit, place,
        )  # fmt: skip
        self._report_after *= 2

    def _answer(self) -> None:
        pinged_at, culprit = self._pinged_at, self._culprit
        if culprit and pinged_at is not None:
            logger.warning(
                "the event loop runs again, after %s blocked it for %.1f s", culprit, time.monotonic() - pinged_at
            )
        self._culprit, self._report_after = "", BLOCKED
        self._pinged_at = None


def _why(job: CoroutineJob) -> str:
    if job.has_returned:
        return "it left something running in a thread"
    return "it swallows its cancellation" if job.reason else "the event loop is blocked, so it can't be cancelled"
