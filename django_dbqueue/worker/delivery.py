"""A claimed message on its way through a child."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Set
from dataclasses import InitVar, dataclass, field
from typing import Any, Final

from django_dbqueue import signals
from django_dbqueue.claims.claim_rows import Claimed
from django_dbqueue.conf import QueueOptions
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.databases import Claim
from django_dbqueue.databases.statement import Kept
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.states.spent import is_spent

CANCEL: Final = "cancel"
"""What a claim was lost by, if its message was cancelled."""


class Followers:
    """Those of a group that were claimed together, each of which begins when all before it have ended well."""

    __slots__ = ("active", "waiting")

    def __init__(self, waiting: Iterable[Delivery]) -> None:
        self.waiting = deque(waiting)
        self.active = 1
        """How many of them may begin, or have begun, and have not ended."""


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """A claimed message on its way through this child. Times are of the monotonic clock.

    Code that only counts, registers or releases doesn't touch ``message``, which is then not built yet.
    """

    claimed: Claimed
    session: DjangoSession
    consumer: Consumer
    options: QueueOptions
    rated: InitVar[Set[int]]
    """Lanes whose groups have rates of their own."""
    slot: int | None = field(default=None, init=False)
    started_at: float | None = field(default=None, init=False)
    finished: bool = field(default=False, init=False)
    timed_out: bool = field(default=False, init=False)
    is_watched: bool = field(default=True, init=False)
    """Somebody else ends it at its timeout; where none does, in a test, its transaction doesn't commit after that."""
    abandoned: bool = field(default=False, init=False)
    """Its handler was cancelled, or interrupted, and still runs; the lease of a coroutine is extended no more."""
    cancels: bool = field(default=False, init=False)
    """Its handler runs in a thread's own event loop, which cancels it at its timeout."""
    cancelled_at: float | None = field(default=None, init=False)
    """When this child learned that its message was cancelled, if it was."""
    call: Any = field(default=None, init=False)
    """The call of a handler in a thread in which it is now (``interruption.Call``)."""
    superseded: bool = field(default=False, init=False)
    """This child has claimed the message again, so this claim of it is lost."""
    is_announced_stuck: bool = field(default=False, init=False)
    """Listeners know that its handler should have ended, and runs on."""
    ack_sent: bool = field(default=False, init=False)
    """An ack went to the database; while the delivery is here unsettled, the reply to it was lost."""
    batch_size: int = field(default=1, init=False)
    """How many its handler got in the same call, itself included."""
    extended_at: float = field(default=0.0, init=False)
    trace: Any = field(default=None, init=False)
    """Where an instrument keeps what it knows of the handler's run, for the settlement."""
    result: Kept | None = field(default=None, init=False)
    """What is kept of a task's return value when the message is acked."""
    when_ended: Callable[[], object] | None = field(default=None, init=False)
    """What its runner does when the ack, or the drop, is committed."""
    raised: BaseException | None = field(default=None, init=False)
    """What its attempt raised, for those who report it."""
    followers: Followers | None = field(default=None, init=False)
    """Those of its group that run after it, if any were taken along."""
    when_held_to: Callable[[Delivery], None] | None = field(default=None, init=False)
    """What its holder does when other options hold for it."""
    claim: Claim = field(init=False)
    claimed_at: float = field(init=False)
    lease: float = field(init=False)
    """The length of the message's lease in seconds."""
    lane: int | None = field(init=False)
    """The lane of its group, if it has one."""
    flow: int | None = field(init=False)
    """Its flow, if it is of one."""
    is_rated: bool = field(init=False)
    """Whether each start in its group is reserved (``gate``)."""
    reads: int = field(init=False)
    """How many deliveries were charged, this one included."""
    is_suspect: bool = field(init=False)
    """Whether a process has died with it, so that it must run alone."""
    is_last: bool = field(init=False)
    """Whether this delivery uses up the last read."""

    def __post_init__(self, rated: Set[int]) -> None:
        claimed = self.claimed
        self.claim, self.lane, self.flow, self.reads = claimed.claim, claimed.lane, claimed.flow, claimed.read_count
        self.claimed_at = time.monotonic()
        self.lease = float(claimed.lease_seconds)
        self.is_rated = self.lane is not None and (self.options.group_rate is not None or self.lane in rated)
        self.is_suspect = claimed.crashes > 0
        self.is_last = is_spent(self.reads, claimed.max_reads)

    @property
    def message(self) -> Any:
        """Return the message, built on first access: usually in the thread that handles it."""
        made = self.claimed.made
        return self.claimed.message if made is None else made

    def hold_to(self, options: QueueOptions) -> None:
        """Let these options hold from now on: its own, which are known when it was decoded."""
        if options is not self.options:
            self.options = options
            if self.started_at is not None:
                self.message.over_at = self.over_at
            if self.when_held_to is not None:
                self.when_held_to(self)

    @property
    def name(self) -> str:
        """Return what handles it: the task that its headers name, if they can be read, or the consumer."""
        return self.consumer.name_for(self.message.headers_text)

    def let_go(self) -> None:
        """Free what only the handler needed."""
        self.claimed.let_go()

    @property
    def is_in_a_row(self) -> bool:
        """Return whether several of its group may be held at once, each to begin after the one before it."""
        return self.lane is not None and self.options.group_batch > 1

    @property
    def is_lost(self) -> bool:
        """Return whether the claim was found to be no longer ours."""
        made = self.claimed.made
        return self.superseded or (made is not None and bool(made.lease_lost))

    def cut_followers(self, *shelves: deque[Delivery]) -> list[Delivery]:
        """Return those that were to follow it, also from shelves on which they wait to begin; they follow no more."""
        if self.followers is None:
            return []
        row = self.followers
        cut: list[Delivery] = []
        for shelf in shelves:
            behind = [each for each in shelf if each.followers is row and each is not self]
            for each in behind:
                shelf.remove(each)
            cut += behind
        cut += row.waiting
        row.waiting.clear()
        return cut

    def lose(self, verb: str) -> None:
        """Tell the handler and any listeners, once, that the claim is lost; ``verb`` is what discovered it."""
        message = self.message
        message.is_gone = True
        if not message.lease_lost:
            message.lease_lost = True
            signals.lease_lost.send(type(message), queue=message.queue, message_id=message.pk, verb=verb)

    def cancel(self, why: str) -> None:
        """Note, before anything else can see it, that its message was cancelled, and tell the handler."""
        self.message.cancelled = why
        self.cancelled_at = time.monotonic()
        self.lose(CANCEL)

    @property
    def over_at(self) -> float | None:
        """Return when a started delivery times out; None if it has no timeout."""
        timeout, began = self.options.timeout, self.started_at
        return None if timeout is None or began is None else began + timeout

    def refuse_late(self) -> None:
        """Raise TimeoutError if it is over, and none but itself watches it."""
        over_at = self.over_at
        if not self.is_watched and over_at is not None and time.monotonic() >= over_at:
            self.timed_out = True
            raise TimeoutError

    @property
    def hangs(self) -> bool:
        """Return whether it timed out in a thread, which can't be ended, or was cancelled and doesn't end."""
        return self.abandoned or (self.timed_out and not self.consumer.is_async)

    @property
    def extend_at(self) -> float:
        """Return when the lease is to be extended: after a third of it."""
        return max(self.claimed_at, self.extended_at) + self.lease / 3
