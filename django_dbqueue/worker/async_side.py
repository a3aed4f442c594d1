"""A child's event loop and the watch on it, as the main thread sees them; nothing where no consumer is async."""

from __future__ import annotations

from collections.abc import Callable

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.coroutines import EventLoop
from django_dbqueue.worker.detached import Detachment
from django_dbqueue.worker.handover import Handover
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.loop_watch import LoopWatch
from django_dbqueue.worker.worker_options import WorkerOptions


class AsyncSide:
    """What a child's main thread needs for its async consumers, if it has any.

    ``ends_at`` returns when this child must end.
    """

    def __init__(
        self,
        options: WorkerOptions,
        consumers: dict[str, Consumer],
        board: Board,
        holding: Holding,
        handover: Handover,
        detachment: Detachment,
        *,
        ends_at: Callable[[], float],
        failed: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self._loop: EventLoop | None = None
        self._watch: LoopWatch | None = None
        if options.concurrency:
            self._loop = EventLoop(
                [each for each in consumers.values() if each.is_async],
                options.concurrency,
                board,
                holding,
                handover,
                detachment,
                failed=failed,
                changed=changed,
            )
            self._watch = LoopWatch(self._loop, board, ends_at, failed, options)

    def start(self) -> None:
        """Start the loop."""
        if self._loop is not None:
            self._loop.start()

    def stop(self) -> bool:
        """End the loop; return whether it has ended."""
        return self._loop is None or self._loop.stop()

    def unready(self) -> frozenset[str]:
        """Return the queues that can't be claimed yet, because their resource is not entered."""
        return frozenset() if self._loop is None else self._loop.resources.unready

    def run(self, now: float) -> None:
        """Do what the loop can't be trusted to do itself."""
        if self._watch is not None:
            self._watch.run(now)

    def until_next(self, now: float) -> float:
        """Return for how many seconds nothing will be due."""
        return 1.0 if self._watch is None else self._watch.until_next(now)
