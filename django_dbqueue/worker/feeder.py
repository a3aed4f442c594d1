"""What a child claims, when, and from which queue; and suspects, which run alone (promise P8)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from django.db import Error, OperationalError

from django_dbqueue.consumers import Consumer
from django_dbqueue.lifecycle.claim import Beside, Claimer
from django_dbqueue.lifecycle.django_session import MessageType, session_of
from django_dbqueue.retry import is_out_of_memory
from django_dbqueue.worker.holding import Delivery, Holding
from django_dbqueue.worker.lookout import Lookout
from django_dbqueue.worker.pace import Pace
from django_dbqueue.worker.worker_options import WorkerOptions

AHEAD: Final = 0.5
"""Seconds of work that a child fetches ahead, judging by what its handlers took lately."""
GROWS_AFTER: Final = 60.0
"""Seconds after a claim that did not fit into memory before the batch size is doubled again."""


class Feeder:
    """A feeder of the threads: it takes the queues in turn, and as many messages as half a second of work needs.

    A message that was in progress when a process died is a suspect. While there is one, nothing else is claimed and
    what has not started is released. Once everything else is settled, suspects run one by one.
    """

    def __init__(
        self,
        model: MessageType,
        options: WorkerOptions,
        consumers: dict[str, Consumer],
        holding: Holding,
        worker_id: int,
        share: int | None,
        *,
        lookout: Lookout,
        before_begin: Callable[[int], None],
        superseded: Callable[[Delivery], None],
    ) -> None:
        self._options = options
        self._before_begin = before_begin
        self._superseded = superseded
        self._consumers = {queue: (consumer, consumer.resolved()) for queue, consumer in consumers.items()}
        self._holding = holding
        self._left = share
        self._claimers = deque(
            Claimer(model, session_of(options.database), name, worker_id, options.most_bytes) for name in consumers
        )
        self._suspects: deque[Delivery] = deque()
        self._beside_suspect: list[Delivery] = []
        """What the same claim brought as a suspect: no thread may begin it."""
        self._tries_suspect = False
        self._lookout = lookout
        self._pace = Pace()
        self._poll_at = 0.0
        self._is_hurried = False
        self._usual_seconds = AHEAD
        self._fitting = options.batch
        """How many messages fit into memory, as far as is known."""
        self._grows_at = 0.0
        self.is_starved = False
        """Whether not even one message without its payload fits into memory: another child may do better."""
        self.empty_at: float | None = None
        """When (monotonic clock) the last check found nothing, with nothing held that might enqueue more."""

    @property
    def is_spent(self) -> bool:
        """Return whether everything that this child may start has been claimed."""
        return self._left == 0

    def hurry(self) -> None:
        """Check the queues at the next turn."""
        self._is_hurried = True

    def learn(self, seconds: float) -> None:
        """Take into account how long a handler took."""
        self._usual_seconds += (seconds - self._usual_seconds) / 8

    def feed(self, now: float, paused: set[str], beside: Beside, freed: int) -> list[Delivery]:
        """Claim what is wanted, or let the next suspect run; return what must be released.

        ``beside`` goes into the claim's transaction; once that is committed, ``freed`` messages are no longer held.
        """
        news = self._lookout.take_news()  # only for this turn: by the next one, handlers may have enqueued something
        if self._suspects:
            if self._suspects_are_alone():
                self._tries_suspect = True
                self._holding.offer(self._suspects.popleft())
            return []
        if self._waits_for_suspect():  # the last one is still running, and what is claimed now would run alongside it
            return []
        want = self._want(freed)
        if want <= 0 or not (self._is_hurried or now >= self._poll_at or news is not None):
            return []
        began = time.monotonic()
        queues = self._in_question(news) - paused
        got = self._claim_some(queues, want, beside)
        self._lookout.awaits_work = got < want
        if got:
            self._pace.worked()
        else:
            self._pace.found_nothing(time.monotonic() - began)
            if not len(self._holding) and all(
                each.low_water.saw_all for each in self._claimers if each.queue in queues
            ):
                self.empty_at = now
        if got < want:
            self._poll_at = time.monotonic() + self._pace.next()
        return self._give_way() if self._suspects else []

    def _in_question(self, news: set[str] | None) -> set[str]:
        """Return the queues to claim from: all, or, after a claim that left nothing, those with something new."""
        asks = self._lookout.awaits_work and not self._is_hurried
        self._is_hurried = False  # before the check: what arrives meanwhile is checked once more
        if not asks:
            return set(self._consumers)
        return self._lookout.ready() if news is None else news

    def _claim_some(self, queues: set[str], want: int, beside: Beside) -> int:
        """Claim from these in turn, each starting where the last time ended; return how many."""
        got = 0
        for _ in range(len(self._claimers)):
            claimer = self._claimers[0]
            self._claimers.rotate(-1)
            if claimer.queue in queues:
                got += self._claim(claimer, want - got, beside)
            if self._suspects or got >= want:
                break
        return got

    def until_next(self, now: float) -> float:
        """Return for how many seconds nothing will be due here, if nothing arrives."""
        if self._suspects:
            return 0.0 if self._suspects_are_alone() else 1.0
        if self._waits_for_suspect():
            return 1.0
        if self.is_spent or self._holding.waiting >= self._options.threads:
            return 1.0
        return max(0.0, min(1.0, self._poll_at - now))

    def give_up(self) -> list[Delivery]:
        """Return everything that has not started; from here on, nothing is offered."""
        waiting = [*self._holding.take_back(), *self._suspects]
        self._suspects.clear()
        return waiting

    def _give_way(self) -> list[Delivery]:
        """Return what has not started, so that a suspect is alone; it doesn't count towards our share."""
        unstarted = [*self._holding.take_back(), *self._beside_suspect]
        self._beside_suspect.clear()
        if self._left is not None:
            self._left += len(unstarted)
        return unstarted

    def _want(self, freed: int) -> int:
        ahead = round(self._options.threads * AHEAD / max(self._usual_seconds, 0.000_1))
        if self._fitting < self._options.batch and time.monotonic() >= self._grows_at:
            self._fitting = min(self._options.batch, self._fitting * 2)
            self._grows_at = time.monotonic() + GROWS_AFTER
            if self._fitting == self._options.batch:
                self._leave_payloads(self._options.most_bytes)
        target = min(self._fitting, max(self._options.threads, ahead))
        want = min(target - self._holding.waiting, self._options.batch - len(self._holding) + freed)
        if self._left is not None:
            want = min(want, self._left)
        soon_enough = self._holding.waiting and want < target // 2
        return 0 if soon_enough else want

    def _claim(self, claimer: Claimer, limit: int, beside: Beside) -> int:
        consumer, options = self._consumers[claimer.queue]
        lease = options.lease if self._options.lease is None else self._options.lease
        claimer.low_water.learn(self._lookout.priorities(claimer.queue))
        try:
            claimed = claimer.take(limit, lease=lease, max_reads=options.max_reads, beside=beside)
        except (Error, MemoryError) as error:
            if is_out_of_memory(error):
                raise self._too_many(claimer, limit, error) from error
            raise
        if claimed:
            self._before_begin(len(claimed))
        if self._left is not None:
            self._left -= len(claimed)
        deliveries = [Delivery(each, consumer, options) for each in claimed]
        for old in self._holding.keep(*deliveries):
            self._superseded(old)
        self._suspects += (each for each in deliveries if each.is_suspect)
        others = [each for each in deliveries if not each.is_suspect]
        if self._suspects:
            self._beside_suspect += others
        else:
            self._holding.offer(*others)
        return len(claimed)

    def _too_many(self, claimer: Claimer, limit: int, error: BaseException) -> Error:
        """Ask for half as many from now on, and for none of their payloads; nothing was claimed.

        The connection is unusable after this.
        """
        self.is_starved = limit == 1 and not claimer.most_bytes
        self._leave_payloads(0)
        self._fitting = max(1, min(self._fitting, limit) // 2)
        self._grows_at = time.monotonic() + GROWS_AFTER
        return OperationalError(
            f"a claim of {limit} messages does not fit into memory ({error}); claiming {self._fitting} from now on"
        )

    def _leave_payloads(self, most_bytes: int) -> None:
        """Leave payloads of more bytes in the database until their handler starts."""
        for claimer in self._claimers:
            claimer.most_bytes = most_bytes

    def _suspects_are_alone(self) -> bool:
        """Return whether only suspects that have not started are held: everything else is settled."""
        return len(self._holding) == len(self._suspects)

    def _waits_for_suspect(self) -> bool:
        """Return whether a suspect that was offered is not settled yet."""
        self._tries_suspect = self._tries_suspect and len(self._holding) > 0
        return self._tries_suspect
