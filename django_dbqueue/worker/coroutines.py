"""A child's event loop, in a thread of its own: it runs up to ``concurrency`` messages of async consumers at once.

A message goes through the same steps as in a handler's thread: its slot is set, it is decoded and handled, and a
verdict is left for the main thread. Whatever it runs in threads has ended before the verdict is posted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Literal

from asgiref.sync import sync_to_async

from django_dbqueue import hooks
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.consumers.unrun import refuse_unrun
from django_dbqueue.worker import log_events
from django_dbqueue.worker.board import Board, SlotState
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.detached import Detachment
from django_dbqueue.worker.execution import INTERRUPTED, NOTHING, RELEASE_PAUSE, Verdict, acked, verdict_after
from django_dbqueue.worker.gate import released, reserve
from django_dbqueue.worker.handover import Handover
from django_dbqueue.worker.holding import CANCEL_PATIENCE, Holding
from django_dbqueue.worker.payloads import read
from django_dbqueue.worker.raised import forget_variables
from django_dbqueue.worker.resources import LEFT_WITHIN, Resources
from django_dbqueue.worker.sync_threads import Calls, SyncThreads
from django_dbqueue.worker.whereabouts import frames_of, place_of

Reason = Literal[
    "its timeout", "its lost lease", "its cancellation", "the stop of its child", "the reload of its worker"
]
TIMEOUT: Final[Reason] = "its timeout"
LOST: Final[Reason] = "its lost lease"
CANCEL: Final[Reason] = "its cancellation"
STOP: Final[Reason] = "the stop of its child"
RELOAD: Final[Reason] = "the reload of its worker"
_CLAIM_GONE: Final = (LOST, CANCEL)

logger = logging.getLogger("django_dbqueue.worker")


class CoroutineJob:
    """A message in the loop. All but ``delivery`` belongs to the loop's thread; others read."""

    __slots__ = ("calls", "cancelled_at", "delivery", "has_returned", "reason", "task", "timer")

    def __init__(self, delivery: Delivery, calls: Calls) -> None:
        self.delivery = delivery
        self.calls = calls
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.reason: Reason | None = None
        self.cancelled_at = 0.0
        self.has_returned = False

    def cancel(self, reason: Reason, board: Board) -> None:
        """Cancel the handler; if it has returned and waits for its threads, only note why it should end."""
        if self.reason is not None or self.task is None or self.task.done():
            return
        self.reason, self.cancelled_at = reason, time.monotonic()
        if reason == TIMEOUT:
            self.delivery.timed_out = True
            if self.delivery.slot is not None:
                board.mark(self.delivery.slot, SlotState.TIMED_OUT)
        if not self.has_returned:
            self.task.cancel()

    def verdict_after(self, error: BaseException) -> Verdict:
        """Return what follows from what has ended the handler."""
        forget_variables(error)
        if self.reason in _CLAIM_GONE:
            return NOTHING
        if self.reason == STOP and isinstance(error, asyncio.CancelledError):
            return Verdict("cut off", error=INTERRUPTED)
        if self.reason == RELOAD and isinstance(error, asyncio.CancelledError):
            return Verdict("release")
        return verdict_after(self.delivery, error)


class EventLoop:
    """The loop and its jobs. ``failed`` is called if it can't continue, ``changed`` when a queue can be claimed."""

    def __init__(
        self,
        consumers: Iterable[Consumer],
        concurrency: int,
        board: Board,
        holding: Holding,
        handover: Handover,
        detachment: Detachment,
        *,
        failed: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self._concurrency = concurrency
        self._board = board
        self._holding = holding
        self._handover = handover
        self._detachment = detachment
        self._failed = failed
        self.resources = Resources(consumers, changed)
        self._threads = SyncThreads(detachment)
        self._jobs: dict[asyncio.Task[Any], CoroutineJob] = {}
        self._is_woken = False
        self._thread = threading.Thread(target=self._live, name="dbqueue-event-loop", daemon=True)

    # -- from other threads -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._holding.attach_loop(self._wake)
        os.register_at_fork(after_in_child=self._after_fork)
        self._thread.start()

    def stop(self) -> bool:
        """Leave the resources, cancel what handlers left running, and end the thread; return whether it has ended."""
        with suppress(RuntimeError):  # it has failed
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(LEFT_WITHIN + 1.0)
        return not self._thread.is_alive()

    def jobs(self) -> list[CoroutineJob]:
        """Return what is running."""
        return list(self._jobs.values())

    def cancel(self, job: CoroutineJob, reason: Reason) -> None:
        """Cancel a job as soon as the loop gets to it."""
        self.call(lambda: job.cancel(reason, self._board))

    def call(self, what: Callable[[], object]) -> None:
        """Let the loop's thread call this."""
        with suppress(RuntimeError):  # the loop has failed, and its child is being replaced
            self._loop.call_soon_threadsafe(what)

    def current(self) -> tuple[CoroutineJob | None, str]:
        """Return what the loop's thread is doing: the job, if it is a handler's own task, and the place in the code."""
        task = asyncio.current_task(self._loop)
        return (None if task is None else self._jobs.get(task)), place_of(frames_of(self._thread.ident, None))

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self.call(self._fill)

    # -- the thread ---------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            asyncio.set_event_loop(self._loop)
            self._loop.set_default_executor(self._threads.default)
            self._run_to_the_end(self._loop.create_task(self._main()))
            self._run_to_the_end(self._loop.create_task(self._tidy()))
            self._threads.shutdown()
            self._loop.close()
        except BaseException:
            self._detachment.end_if_forked(succeeded=False)
            logger.critical("the event loop failed; its child is replaced", exc_info=True)
            self._failed()

    def _run_to_the_end(self, task: asyncio.Task[None]) -> None:
        while not task.done():
            with suppress(SystemExit, KeyboardInterrupt):  # a task that a handler started has raised it, and has it
                self._loop.run_until_complete(task)
        task.result()

    async def _main(self) -> None:
        self.resources.start()
        self._fill()
        await self._stopped.wait()
        await self.resources.leave()

    async def _tidy(self) -> None:
        """Cancel what handlers have left running."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        await self._loop.shutdown_asyncgens()

    def _fill(self) -> None:
        """Start what is offered, as long as there is room."""
        self._is_woken = False
        while len(self._jobs) < self._concurrency and (delivery := self._holding.take_async()) is not None:
            context, calls = self._threads.context()
            job = CoroutineJob(delivery, calls)
            job.task = self._loop.create_task(self._handle(job), context=context)
            self._jobs[job.task] = job
            self._set_timer(job)

    def _set_timer(self, job: CoroutineJob) -> None:
        if job.delivery.over_at is not None:
            due = max(0.0, job.delivery.over_at - time.monotonic())
            job.timer = self._loop.call_later(due, job.cancel, TIMEOUT, self._board)

    async def _held_back(self, job: CoroutineJob) -> Verdict | None:
        """Wait for the start of a message whose group has a rate; return what becomes of it if it can't start now."""
        if job.timer is not None:
            job.timer.cancel()
        self._holding.hold_back(job.delivery)
        try:
            start = await sync_to_async(reserve)(job.delivery)
            if not start.is_reserved:
                return released(job.delivery, start)
            await asyncio.sleep(start.wait)
        except BaseException as error:
            return job.verdict_after(error)
        if not self._holding.start_again(job.delivery, patience=CANCEL_PATIENCE):
            return NOTHING
        self._set_timer(job)
        return None

    async def _handle(self, job: CoroutineJob) -> None:
        delivery = job.delivery
        try:
            verdict = await self._held_back(job) if delivery.is_rated else None
            if verdict is None:
                log_events.begun([delivery])
                watched = hooks.begin([delivery])
                verdict = await self._attempt(job)
                self._detachment.end_if_forked(succeeded=verdict.verb == "ack")
                hooks.end(watched, [(delivery, verdict)])
                log_events.ended([(delivery, verdict)])
            job.has_returned = True
            while job.calls:  # cancelling a coroutine doesn't end what it runs in a thread
                await asyncio.wait([_watched(call) for call in list(job.calls)])
            succeeded = verdict.verb == "ack" and not delivery.timed_out
            self._holding.ended(delivery, succeeded=succeeded, has_result=verdict.result is not None)
            self._handover.post(delivery, verdict)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and self._stopped.is_set():
                raise  # the child ends, and its supervisor settles what is left
            logger.critical("the event loop failed; its child is replaced", exc_info=True)
            self._failed()
        else:
            if job.timer is not None:
                job.timer.cancel()
            del self._jobs[job.task]  # type: ignore[arg-type]
            self._fill()

    async def _attempt(self, job: CoroutineJob) -> Verdict:
        """Decode the message and run its handler; raise nothing."""
        delivery, message = job.delivery, job.delivery.message
        try:
            message.release_pause, message.over_at = RELEASE_PAUSE, delivery.over_at
            if "body" not in message.__dict__:
                await sync_to_async(read)(delivery)
            message.decode_now()
            handler = delivery.consumer.handler
            returned = await handler(message, *self.resources.arguments(delivery.consumer))
            refuse_unrun(delivery.consumer.name, returned)
            verdict = acked(delivery, returned)
        except BaseException as error:
            return job.verdict_after(error)
        return NOTHING if job.reason in _CLAIM_GONE else verdict

    def _after_fork(self) -> None:
        """Let the copy of a handler that forked run to its end, but no other coroutine: the parent runs those."""
        if threading.get_ident() == self._thread.ident:
            asyncio._set_running_loop(None)
            loop: Any = self._loop
            if isinstance(loop, asyncio.BaseEventLoop):
                loop._ready.clear()  # type: ignore[attr-defined]
                loop._selector.close()  # type: ignore[attr-defined]  # it is shared with the parent's


def _watched(call: Future[Any]) -> asyncio.Future[None]:
    """Return a future that is done with the call, and whose cancellation doesn't cancel the call."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    call.add_done_callback(lambda _: loop.call_soon_threadsafe(finish))
    return done
