"""What a child holds: fetched ahead, running, or finished and not yet settled."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from django_dbqueue import signals
from django_dbqueue.conf import QueueOptions
from django_dbqueue.consumers import Consumer
from django_dbqueue.databases import Claim
from django_dbqueue.databases.statements import Kept
from django_dbqueue.lifecycle.claim_rows import Claimed
from django_dbqueue.worker.board import Board, SlotState


class Delivery:
    """A claimed message on its way through this child. Times are of the monotonic clock.

    Code that only counts, registers or releases doesn't touch ``message``, which is then not built yet.
    """

    __slots__ = (
        "_claimed",
        "ack_sent",
        "claim",
        "claimed_at",
        "consumer",
        "extended_at",
        "finished",
        "is_last",
        "is_suspect",
        "lease",
        "options",
        "reads",
        "result",
        "slot",
        "started_at",
        "superseded",
        "timed_out",
    )

    def __init__(self, claimed: Claimed, consumer: Consumer, options: QueueOptions) -> None:
        self._claimed = claimed
        self.consumer = consumer
        self.options = options
        self.claim: Claim = claimed.claim
        self.claimed_at = time.monotonic()
        self.slot: int | None = None
        self.started_at: float | None = None
        self.finished = False
        self.timed_out = False
        self.superseded = False
        """This child has claimed the message again, so this claim of it is lost."""
        self.ack_sent = False
        """An ack went to the database; while the delivery is here unsettled, the reply to it was lost."""
        self.extended_at = 0.0
        self.result: Kept | None = None
        """What is kept of a task's return value when the message is acked."""
        self.lease = float(claimed.lease_seconds)
        """The length of the message's lease in seconds."""
        self.reads: int = claimed.read_count
        """How many deliveries were charged, this one included."""
        self.is_suspect = claimed.crashes > 0
        """Whether a process has died with it, so that it must run alone."""
        self.is_last = 0 < claimed.max_reads <= self.reads
        """Whether this delivery uses up the last read."""

    @property
    def message(self) -> Any:
        """Return the message, built on first access: usually in the thread that handles it."""
        return self._claimed.message

    def let_go(self) -> None:
        """Free what only the handler needed."""
        self._claimed.let_go()

    @property
    def is_lost(self) -> bool:
        """Return whether the claim was found to be no longer ours."""
        return self.superseded or (self._claimed.is_made and bool(self.message.lease_lost))

    def lose(self, verb: str) -> None:
        """Tell the handler and any listeners, once, that the claim is lost; ``verb`` is what discovered it."""
        message = self.message
        if not message.lease_lost:
            message.lease_lost = True
            signals.lease_lost.send(type(message), queue=message.queue, message_id=message.pk, verb=verb)

    @property
    def over_at(self) -> float | None:
        """Return when a started delivery times out; None if it has no timeout."""
        timeout, began = self.options.timeout, self.started_at
        return None if timeout is None or began is None else began + timeout

    @property
    def extend_at(self) -> float:
        """Return when the lease is to be extended: after a third of it."""
        return max(self.claimed_at, self.extended_at) + self.lease / 3


class Holding:
    """The registry of deliveries; threads take from its shelf, the main thread fills it."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._all: dict[int, Delivery] = {}
        self._superseded: list[Delivery] = []
        self._shelf: deque[Delivery] = deque()
        self._changed = threading.Condition()
        self._open = True

    def __len__(self) -> int:
        return len(self._all) + len(self._superseded)

    @property
    def waiting(self) -> int:
        """Return how many have not started."""
        return len(self._shelf)

    def keep(self, *deliveries: Delivery) -> list[Delivery]:
        """Hold what was just claimed without offering it to the threads.

        Return the deliveries of the same messages that were held under earlier claims. Those are lost: what has not
        started never will, and what has started stays held until it is dropped.
        """
        with self._changed:
            before = self._all
            superseded = [before[each.claim.id] for each in deliveries if each.claim.id in before]
            for old in superseded:
                old.superseded = True
            before.update((each.claim.id, each) for each in deliveries)
            self._superseded += [old for old in superseded if old.started_at is not None]
            self._shelf = deque(each for each in self._shelf if not each.superseded) if superseded else self._shelf
        return superseded

    def offer(self, *deliveries: Delivery) -> None:
        """Let threads take deliveries that are held."""
        with self._changed:
            self._shelf.extend(deliveries)
            self._changed.notify(len(deliveries))

    def take(self) -> Delivery | None:
        """Wait for a delivery and start it: its slot is set before anything else is done. None: no more will come."""
        with self._changed:
            while True:
                while not self._shelf:
                    if not self._open:
                        return None
                    self._changed.wait()
                delivery = self._shelf.popleft()
                if delivery.is_lost:
                    self._forget(delivery)
                    continue
                delivery.started_at = time.monotonic()
                delivery.slot = self._board.occupy(delivery.claim, delivery.over_at)
                return delivery

    def take_back(self) -> list[Delivery]:
        """Return what has not started, and withdraw it; it stays held until it is dropped."""
        with self._changed:
            waiting = list(self._shelf)
            self._shelf.clear()
            return waiting

    def drop(self, *deliveries: Delivery) -> None:
        """Stop holding them: their settlement was committed, or their lease was lost."""
        with self._changed:
            for delivery in deliveries:
                self._forget(delivery)
                if delivery.slot is not None:
                    self._board.clear(delivery.slot)
                    delivery.slot = None

    def _forget(self, delivery: Delivery) -> None:
        if self._all.get(delivery.claim.id) is delivery:
            del self._all[delivery.claim.id]
        elif delivery in self._superseded:
            self._superseded.remove(delivery)

    def ended(self, delivery: Delivery, *, succeeded: bool) -> None:
        """Note that the handler has ended; if it returned, a death before the ack is not its fault."""
        if delivery.slot is not None:
            self._board.stop_clock(delivery.slot)
            if succeeded:
                self._board.mark(delivery.slot, SlotState.SUCCEEDED)
        delivery.let_go()
        delivery.finished = True

    def snapshot(self) -> list[Delivery]:
        """Return all that is held now."""
        with self._changed:
            return [*self._all.values(), *self._superseded]

    def running(self) -> list[Delivery]:
        """Return what threads are working on."""
        return [each for each in self.snapshot() if each.started_at is not None and not each.finished]

    def close(self) -> None:
        """Let the threads end when the shelf is empty."""
        with self._changed:
            self._open = False
            self._changed.notify_all()
