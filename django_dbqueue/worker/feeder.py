"""What a child claims, when, and from which queue; and suspects, which run alone (promise P8)."""

from __future__ import annotations

import math
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Set
from typing import Final

from django.db import Error, OperationalError

from django_dbqueue.claims.claim_rows import Claimed
from django_dbqueue.consumers.registry import Consumer, Kind
from django_dbqueue.databases.statement import MAX_IDS
from django_dbqueue.lanes.bursts import Bursts
from django_dbqueue.lifecycle.claimer import Claimer, Partner
from django_dbqueue.models import Message
from django_dbqueue.sessions.retry import is_out_of_memory
from django_dbqueue.worker.delivery import Delivery, Followers
from django_dbqueue.worker.gate import in_a_row
from django_dbqueue.worker.holding import Holding, Load
from django_dbqueue.worker.idle_poll import IdlePoll
from django_dbqueue.worker.lane import Lane, have_room
from django_dbqueue.worker.pace import Pace
from django_dbqueue.worker.settler import Settler
from django_dbqueue.worker.worker_options import WorkerOptions

GROWS_AFTER: Final = 60.0
"""Seconds after a claim that did not fit into memory before the batch size is doubled again."""


class Feeder:
    """A feeder of the threads and the event loop: it takes the queues in turn, and what half a second of work needs.

    A message that was in progress when a process died is a suspect. While there is one, nothing else is claimed and
    what has not started is released. Once everything else is settled, suspects run one by one.
    """

    def __init__(
        self,
        options: WorkerOptions,
        consumers: dict[str, Consumer],
        holding: Holding,
        worker_id: int,
        share: int | None,
        *,
        idle_poll: IdlePoll,
        settler: Settler,
        before_begin: Callable[[int], None],
        unready: Callable[[], Set[str]],
    ) -> None:
        self._options = options
        self._settler = settler
        self._before_begin = before_begin
        self._unready = unready
        self._consumers = {queue: (consumer, consumer.resolved()) for queue, consumer in consumers.items()}
        self._holding = holding
        self.left = share  # how many more messages this child may start (None: no limit)
        self._claimers = deque(
            Claimer(Message, options.session, name, worker_id, options.most_bytes, in_a_row=in_a_row(*chosen))
            for name, chosen in random.sample([*self._consumers.items()], len(consumers))  # each child may end soon
        )
        self._bursts = {
            name: Bursts(options.session, name)
            for name, (_, chosen) in self._consumers.items()
            if chosen.group_burst is not None
        }
        self._suspects: deque[Delivery] = deque()
        self._suspect_mates: list[Delivery] = []
        """What the same claim brought as a suspect: no thread may begin it."""
        self._tries_suspect = False
        self._idle_poll = idle_poll
        self._pace = Pace()
        self._is_hurried = False
        self._lanes = {kind: Lane(kind, options) for kind in {each.kind for each in consumers.values()}}
        self._full_batch = max(options.batch, options.most_listed, min(MAX_IDS, options.most_async))
        self._fitting = self._full_batch
        """How many messages fit into memory, as far as is known."""
        self._grows_at = 0.0
        self.is_starved = False
        """Whether not even one message without its payload fits into memory: another child may do better."""
        self.empty_at: float | None = None
        """When (monotonic clock) the last check found nothing, with nothing held that might enqueue more."""

    @property
    def has_claimed_all(self) -> bool:
        """Return whether everything that this child may start has been claimed."""
        return self.left == 0

    @property
    def has_room(self) -> bool:
        """Return whether a thread, or the event loop, could begin more than is held."""
        return have_room(self._lanes.values(), self._holding.snapshot())

    @property
    def is_calm(self) -> bool:
        """Return whether nothing has come for a while, so that the idle poll is enough."""
        return self._pace.is_calm and self._idle_poll.awaits_work

    def hurry(self) -> None:
        """Check the queues at the next turn."""
        self._is_hurried = True

    def learn(self, seconds: float, kind: Kind) -> None:
        """Take into account how long a handler took."""
        self._lanes[kind].learn(seconds)

    def run(self, now: float) -> None:
        """Claim what is wanted, or let the next suspect run. The settler releases what can't be started.

        Acks go into the claim's transaction. Nothing is claimed from queues that are closed or ``unready``: the latter
        wait for a resource of this child, so it has not drained them.
        """
        self._settler.release(self._feed(now))

    def _feed(self, now: float) -> list[Delivery]:
        """Claim, and return what can't be started."""
        news = self._idle_poll.take_news()  # only for this turn: by the next one, handlers may have enqueued something
        if self._suspects:
            if self._suspects_are_alone():
                self._tries_suspect = True
                self._holding.offer(self._suspects.popleft())
            return []
        if self._waits_for_suspect() or self.has_claimed_all:  # the last suspect runs, or that was all
            return []
        unready, freed = self._unready(), self._settler.sendable()
        wants = self._wants(freed)
        until = math.inf if self._is_hurried or news is not None else -math.inf if self._idle_poll.asker else now
        wants = {lane: want for lane, want in wants.items() if want > 0 and lane.poll_at <= until}
        if not wants:
            return []
        began = time.monotonic()
        queues = self._in_question(news) - self._idle_poll.closed - unready
        left = self._claim_some(queues, wants.copy(), self._settler)
        self._idle_poll.awaits_work = all(left.values())
        if left != wants:
            self._pace.worked()
        else:
            self._pace.found_nothing(time.monotonic() - began)
            in_question = [each for each in self._claimers if each.queue in queues]
            saw_all = all(each.low_water.saw_all and self._lane(each.queue) in wants for each in in_question)
            # an ack that went along may have let others run after the commit, which this claim hasn't seen
            if saw_all and not unready and not freed and not len(self._holding):
                self.empty_at = now
        if any(left.values()):
            poll_at = time.monotonic() + self._pace.next()
            for lane in (lane for lane, count in left.items() if count):
                lane.poll_at = poll_at
        return self._give_way() if self._suspects else []

    def _in_question(self, news: set[str] | None) -> set[str]:
        """Return the queues to claim from: all, or, after a claim that left nothing, those with something new."""
        asks = self._idle_poll.awaits_work and not self._is_hurried
        self._is_hurried = False  # before the check: what arrives meanwhile is checked once more
        if not asks:
            return set(self._consumers)
        return self._idle_poll.ready() if news is None else news

    def _claim_some(self, queues: set[str], left: dict[Lane, int], partner: Partner) -> dict[Lane, int]:
        """Claim from these in turn, each starting where the last time ended; return what is still wanted."""
        for _ in range(len(self._claimers)):
            claimer = self._claimers[0]
            self._claimers.rotate(-1)
            lane = self._lane(claimer.queue)
            want = left.get(lane, 0) if self.left is None else min(left.get(lane, 0), self.left)
            if want and claimer.queue in queues:
                left[lane] -= (claimed := self._claim(claimer, want, partner))
                if claimed < want and claimer.queue in self._bursts and not self._suspects:
                    left[lane] -= self._claim_burst(claimer, lane, partner)
            if self._suspects or not any(left.values()) or self.has_claimed_all:
                break
        return left

    def _claim_burst(self, claimer: Claimer, lane: Lane, partner: Partner) -> int:
        """Let threads that have no work work on groups that are at their limit; return how many were claimed."""
        idle = lane.idle(self._loads()[lane.kind])
        given = self._bursts[claimer.queue].give(idle if self.left is None else min(idle, self.left)) if idle else 0
        return self._claim(claimer, given, partner) if given else 0

    def until_next(self, now: float) -> float:
        """Return for how many seconds nothing will be due here, if nothing arrives."""
        if self._suspects:
            return 0.0 if self._suspects_are_alone() else 1.0
        if self._waits_for_suspect() or self.has_claimed_all or self._idle_poll.asker is not None:
            return 1.0
        loads = self._loads()
        polls = (lane.poll_at for kind, lane in self._lanes.items() if not lane.is_full(loads[kind], self._fitting))
        return max(0.0, min(1.0, min(polls, default=math.inf) - now))

    def give_up(self) -> list[Delivery]:
        """Return everything that has not started; from here on, nothing is offered."""
        waiting = [*self._holding.take_back(), *self._suspects]
        self._suspects.clear()
        return waiting

    def _give_way(self) -> list[Delivery]:
        """Return what has not started, so that a suspect is alone; it doesn't count towards our share."""
        unstarted = [*self._holding.take_back(), *self._suspect_mates]
        self._suspect_mates.clear()
        if self.left is not None:
            self.left += len(unstarted)
        return unstarted

    def _wants(self, freed: Counter[Kind]) -> dict[Lane, int]:
        """Return how many messages of each kind are wanted."""
        if self._fitting < self._full_batch and time.monotonic() >= self._grows_at:
            self._fitting = min(self._full_batch, self._fitting * 2)
            self._grows_at = time.monotonic() + GROWS_AFTER
            if self._fitting == self._full_batch:
                self._leave_payloads(self._options.most_bytes)
        loads = self._loads()
        return {lane: lane.want(loads[kind], freed[kind], self._fitting) for kind, lane in self._lanes.items()}

    def _lane(self, queue: str) -> Lane:
        return self._lanes[self._consumers[queue][0].kind]

    def _loads(self) -> dict[Kind, Load]:
        if "async" in self._lanes or len(self._lanes) > 1:
            return self._holding.loads()
        return dict.fromkeys(self._lanes, Load(len(self._holding), 0, self._holding.waiting))  # all are of one kind

    def _claim(self, claimer: Claimer, limit: int, partner: Partner) -> int:
        consumer, options = self._consumers[claimer.queue]
        lease = options.lease if self._options.lease is None else self._options.lease
        claimer.low_water.learn(self._idle_poll.priorities(claimer.queue))
        if claimer.in_a_row > 1:
            claimer.room = self._room(claimer.queue)
        began_at = time.monotonic()
        try:
            claimed = claimer.take(limit, lease=lease, max_reads=options.max_reads, partner=partner)
        except (Error, MemoryError) as error:
            if is_out_of_memory(error):
                raise self._too_many(claimer, limit, error) from error
            raise
        if claimed:
            self._before_begin(len(claimed))
        if self.left is not None:
            self.left -= len(claimed)
        session, rated = self._options.session, self._idle_poll.rated
        deliveries = [Delivery(each, session, consumer, options, rated) for each in claimed]
        followers = self._let_follow(deliveries, claimer.followers) if claimer.followers else []
        for old in self._holding.keep(*deliveries, *followers, began_at=began_at):
            self._settler.let_go(old)
        self._suspects += [each for each in deliveries if each.is_suspect]
        if self._suspects:
            self._suspect_mates += [each for each in deliveries if not each.is_suspect]
        else:
            self._holding.offer(*deliveries)
        return len(claimed)

    def _room(self, queue: str) -> int:
        """Return for how many messages of this queue there is room, followers included."""
        lane = self._lane(queue)
        room = min(self._fitting, lane.most - self._loads()[lane.kind].held)
        return room if self.left is None else min(room, self.left)

    def _let_follow(self, heads: list[Delivery], followers: dict[int, list[Claimed]]) -> list[Delivery]:
        """Let what a claim has taken along follow its heads; return it."""
        along: list[Delivery] = []
        for head in heads:
            own = head.session, head.consumer, head.options, self._idle_poll.rated
            behind = [Delivery(each, *own) for each in followers.get(head.claim.id, ())]
            if behind:
                shared = Followers(behind)
                for each in (head, *behind):
                    each.followers = shared
                along += behind
        if self.left is not None:
            self.left -= len(along)
        return along

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
