"""What a child holds: fetched ahead, running, or finished and not yet settled."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple, get_args

from django_dbqueue.consumers.registry import Kind
from django_dbqueue.worker.board import Board, SlotState
from django_dbqueue.worker.delivery import Delivery, Followers

CANCEL_PATIENCE: Final = 5.0
"""Seconds that a cancelled coroutine has to clean up before it counts as hung."""


class Load(NamedTuple):
    """How many messages of a kind of consumers are held; how many of these run, or could begin."""

    held: int
    running: int
    waiting: int


class Holding:
    """The registry of deliveries; threads take from its shelf, the main thread fills it.

    ``waits``: whether a list of messages that isn't full may wait for others.
    """

    def __init__(self, board: Board, *, waits: bool = False) -> None:
        self._board = board
        self._waits = waits
        self._all: dict[int, Delivery] = {}
        self._superseded: list[Delivery] = []
        self._shelf: deque[Delivery] = deque()
        self._cut: list[Delivery] = []
        self._async_shelf: deque[Delivery] = deque()
        self._wake_loop: Callable[[], None] | None = None
        self._lock = threading.Lock()  # a Condition's own methods to take it are Python
        self._changed = threading.Condition(self._lock)
        self._open = True
        self.has_timeouts = False  # whether a message's own function had a timeout so far

    def __len__(self) -> int:
        return len(self._all) + len(self._superseded)

    @property
    def waiting(self) -> int:
        """Return how many have not started, and could."""
        return self._ripe() + len(self._async_shelf)

    def _ripe(self) -> int:
        """Return how many threads could take: not those that wait for others to fill their list."""
        return sum(self._ripe_of_each().values()) if self._waits else len(self._shelf)

    def _ripe_of_each(self) -> Counter[Kind]:
        with self._lock:
            found = Counter((each.consumer.queue, each.consumer.kind, each.consumer.batch or 1) for each in self._shelf)
        ripe = Counter[Kind]()
        for (_, kind, size), number in found.items():
            ripe[kind] += number - (number % size if self._waits else 0)
        return ripe

    def attach_loop(self, wake: Callable[[], None]) -> None:
        """Keep deliveries of async consumers for ``take_async`` from now on; ``wake`` is called when there are any."""
        self._wake_loop = wake

    def shelf(self, delivery: Delivery) -> deque[Delivery]:
        """Return where deliveries of this one's kind wait."""
        return self._async_shelf if self._wake_loop and delivery.consumer.is_async else self._shelf

    def loads(self) -> dict[Kind, Load]:
        """Count what is held of each kind of consumers."""
        held = [each.consumer.kind for each in self.snapshot()]  # lists: this is called several times for each claim
        running = [each.consumer.kind for each in self.running()]
        ripe = self._ripe_of_each()
        ripe["async"] = len(self._async_shelf)
        return {kind: Load(held.count(kind), running.count(kind), ripe[kind]) for kind in get_args(Kind)}

    def keep(self, *deliveries: Delivery) -> list[Delivery]:
        """Hold what was just claimed without offering it to the threads.

        Return the deliveries of the same messages that were held under earlier claims. Those are lost: what has not
        started never will, and what has started stays held until it is dropped.
        """
        with self._lock:
            before = self._all
            superseded = [before[each.claim.id] for each in deliveries if each.claim.id in before]
            for old in superseded:
                old.superseded = True
                self._cut += old.cut_followers(self._shelf, self._async_shelf)
            before.update({each.claim.id: each for each in deliveries})
            self._superseded += [old for old in superseded if old.started_at is not None]
            if superseded:
                self._shelf = deque(each for each in self._shelf if not each.superseded)
                self._async_shelf = deque(each for each in self._async_shelf if not each.superseded)
        return superseded

    def offer(self, *deliveries: Delivery) -> None:
        """Let threads, or the event loop, take deliveries that are held, all of one queue."""
        if not deliveries:
            return
        with self._lock:
            shelf = self.shelf(deliveries[0])
            shelf.extend(deliveries)
            if shelf is self._shelf:
                self._changed.notify(len(deliveries))
        if shelf is not self._shelf and self._wake_loop is not None:
            self._wake_loop()

    def take(self) -> Delivery | None:
        """Wait for a delivery and start it: its slot is set before anything else is done. None: no more will come."""
        with self._lock:
            while True:
                while (pause := self._until_ripe()) != 0.0:
                    if not self._open:
                        return None
                    self._changed.wait(pause)
                if (delivery := self._start(self._shelf.popleft())) is not None:
                    return delivery

    def fill_batch(self, first: Delivery) -> list[Delivery]:
        """Start what its handler gets besides one that was taken, and return all of them."""
        batch, others = [first], deque[Delivery]()
        with self._lock:
            self._follow_in(batch)
            shelf, self._shelf = self._shelf, others
            for each in shelf:
                if each.consumer is first.consumer and len(batch) < (first.consumer.batch or 1):
                    if (started := self._start(each)) is not None:
                        batch.append(started)
                        self._follow_in(batch)
                else:
                    others.append(each)
        for each in batch:
            each.batch_size = len(batch)
        return batch

    def _follow_in(self, batch: list[Delivery]) -> None:
        """Let those that follow the last one into its list, as far as there is room."""
        followers, size = batch[-1].followers, batch[-1].consumer.batch or 1
        while followers is not None and followers.waiting and len(batch) < size:
            if (started := self._start(followers.waiting.popleft())) is not None:
                followers.active += 1
                batch.append(started)

    def _until_ripe(self) -> float | None:
        """Return for how many seconds nothing may begin, None if nothing is there; what may is brought to the front."""
        if not self._shelf:
            return None
        if self._shelf[0].consumer.batch is None or not (self._waits and self._open):
            return 0.0
        found = Counter[str]()
        for each in self._shelf:
            found[each.consumer.queue] += 1 if each.followers is None else 1 + len(each.followers.waiting)
        now = time.monotonic()
        pauses = []
        for at, each in enumerate(self._shelf):
            size = each.consumer.batch
            pause = each.claimed_at + each.consumer.batch_wait - now
            if size is None or found[each.consumer.queue] >= size or pause <= 0.0 or each.is_suspect:
                del self._shelf[at]
                self._shelf.appendleft(each)
                return 0.0
            pauses.append(pause)
        return min(pauses)

    def take_async(self) -> Delivery | None:
        """Start a delivery of an async consumer, if one is there (for the event loop, which must not wait)."""
        with self._lock:
            while self._async_shelf:
                if (delivery := self._start(self._async_shelf.popleft(), patience=CANCEL_PATIENCE)) is not None:
                    return delivery
        return None

    def _start(self, delivery: Delivery, *, patience: float = 0.0) -> Delivery | None:
        if delivery.is_lost:
            self._cut += delivery.cut_followers()
            self._forget(delivery)
            return None
        delivery.started_at = began = time.monotonic()
        timeout = delivery.options.timeout
        delivery.slot = self._board.occupy(delivery.claim, None if timeout is None else began + timeout + patience)
        if delivery.consumer.runner is not None:
            delivery.when_held_to = self._time_again
        return delivery

    def _time_again(self, delivery: Delivery) -> None:
        """Let the timeout of a message's own function hold, which is known since it was decoded."""
        with self._lock:
            self.has_timeouts = self.has_timeouts or delivery.over_at is not None
            if delivery.slot is not None:
                self._board.time_out_at(delivery.slot, delivery.over_at)

    def hold_back(self, delivery: Delivery) -> None:
        """Note that what was taken has not begun yet: its process may die without any fault of its own."""
        with self._changed:
            delivery.started_at = None
            if delivery.slot is not None:
                self._board.mark(delivery.slot, SlotState.EMPTY)

    def start_again(self, delivery: Delivery, *, patience: float = 0.0) -> bool:
        """Start what was held back; return whether it is still ours. ``patience``: seconds beyond its timeout."""
        with self._changed:
            delivery.started_at = time.monotonic()
            if delivery.slot is not None:
                over_at = None if delivery.over_at is None else delivery.over_at + patience
                self._board.restart(delivery.slot, over_at)
            return not delivery.is_lost

    def take_back(self) -> list[Delivery]:
        """Return what has not started, and withdraw it; it stays held until it is dropped."""
        with self._lock:
            waiting = [*self._shelf, *self._async_shelf]
            for each in self._all.values():
                waiting += each.cut_followers()
            self._shelf.clear()
            self._async_shelf.clear()
            return waiting

    def drop(self, *deliveries: Delivery) -> None:
        """Stop holding them: their settlement was committed, or their lease was lost."""
        with self._lock:
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

    def ended(self, delivery: Delivery, *, succeeded: bool, has_result: bool) -> None:
        """Note that the handler has ended; if it returned, a death before the ack is not its fault.

        ``has_result``: what it returned is to be kept with the ack.
        """
        if delivery.slot is not None:
            self._board.stop_clock(delivery.slot, succeeded=succeeded, has_result=has_result)
        delivery.let_go()
        delivery.finished = True
        if delivery.followers is not None:
            message = delivery.message
            is_acked = message.is_acked or (succeeded and not message.settled)
            is_well = is_acked and not delivery.timed_out and not delivery.is_lost
            self._follow(delivery, delivery.followers, goes_on=is_well)

    def _follow(self, delivery: Delivery, followers: Followers, *, goes_on: bool) -> None:
        """Let the next of a group begin, or cut off all that were to follow."""
        with self._changed:
            followers.active -= 1
            if not goes_on:
                self._cut += delivery.cut_followers()
            elif followers.waiting and not followers.active:
                followers.active = 1
                shelf = self.shelf(delivery)
                if shelf is self._shelf and shelf:  # otherwise the thread that calls this takes it
                    self._changed.notify()
                shelf.append(followers.waiting.popleft())

    def let_none_follow(self, delivery: Delivery) -> None:
        """Cut off those that were to follow one that did not end well after all, and have not begun.

        Its claim was found to be lost, or its ack was refused: it runs again, before them, or holds its group.
        """
        with self._changed:
            self._cut += delivery.cut_followers(self._shelf, self._async_shelf)

    def cut_off(self) -> list[Delivery]:
        """Return those that were to follow one that did not end well, or was lost; they stay held until dropped."""
        with self._changed:
            cut, self._cut = self._cut, []
        return cut

    def snapshot(self) -> list[Delivery]:
        """Return all that is held now."""
        with self._lock:
            return [*self._all.values(), *self._superseded]

    def running(self) -> list[Delivery]:
        """Return what threads and the event loop are working on."""
        return [each for each in self.snapshot() if each.started_at is not None and not each.finished]

    def close(self) -> None:
        """Let the threads end when the shelf is empty."""
        with self._lock:
            self._open = False
            self._changed.notify_all()
