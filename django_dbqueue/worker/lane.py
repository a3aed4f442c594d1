"""How many messages one kind of consumers wants: those that get one, those that get a list, and async ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django_dbqueue.consumers.registry import Kind
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.holding import Load
from django_dbqueue.worker.worker_options import WorkerOptions

PREFETCH_SECONDS: Final = 0.5
"""Seconds of work that a child fetches ahead, judging by what its handlers took lately."""


class Lane:
    """A kind of consumers: how many of its messages run at once, how many are held at most, and how long they take.

    Each kind has bounds of its own, so that one that is full doesn't stop the other.
    """

    def __init__(self, kind: Kind, options: WorkerOptions) -> None:
        self.kind = kind
        self.is_async = kind == "async"
        self.poll_at = 0.0
        """When (monotonic clock) to check for more, after a claim that came back short."""
        self.width = options.concurrency if self.is_async else options.threads
        self._least = self.width * (options.largest_batch if kind == "batch" else 1)
        """How many must wait for all threads to have enough."""
        self._batch = options.batch
        self.most = {"single": options.batch, "batch": options.most_listed, "async": options.most_async}[kind]
        self._usual_seconds = PREFETCH_SECONDS

    def learn(self, seconds: float) -> None:
        """Take into account how long a handler took."""
        self._usual_seconds += (seconds - self._usual_seconds) / 8

    def is_full(self, load: Load, fitting: int) -> bool:
        """Return whether enough wait to begin, or no more may be held."""
        if self.is_async:
            return load.running + load.waiting > self.width or self.want(load, 0, fitting) <= 0
        return load.waiting >= self._least or load.held >= self.most

    def idle(self, load: Load) -> int:
        """Return how many more could begin at once."""
        return max(0, (self.width if self.is_async else self._least) - load.held)

    def want(self, load: Load, freed: int, fitting: int) -> int:
        """Return how many to claim; ``freed`` are held until that claim's commit, ``fitting`` is the memory's bound."""
        prefetch = round(self.width * PREFETCH_SECONDS / max(self._usual_seconds, 0.000_1))
        if self.is_async:  # so many run at once that one ahead for each of them would be far too many
            target = max(0, self.width - load.running) + min(self._batch, max(1, prefetch))
        else:
            target = max(self._least, prefetch)
        target = min(fitting, self.most, target)
        want = min(target - load.waiting, self.most - load.held + freed, fitting)
        soon_enough = load.waiting and want < target // 2
        return 0 if soon_enough else want


def have_room(lanes: Iterable[Lane], held: Iterable[Delivery]) -> bool:
    """Return whether a thread, or the event loop, could begin more than is held. A list takes a thread, full or not.

    What has ended counts until it is settled: else a successor would work beside a child that has nothing left to run.
    """
    busy = {False: 0.0, True: 0.0}
    for each in held:
        busy[each.consumer.is_async] += 1 / each.batch_size
    return any(busy[lane.is_async] < lane.width - 0.5 for lane in lanes)  # halfway: a list is a sum of its parts
