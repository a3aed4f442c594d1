"""Timeouts of handlers that run in threads: a thread can't be ended, so its child is replaced."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.worker.board import Board, SlotState
from django_dbqueue.worker.coroutines import TIMEOUT
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import timed_out
from django_dbqueue.worker.holding import CANCEL_PATIENCE, Holding
from django_dbqueue.worker.stuck import announce_stuck

LONG: Final = 1.0

logger = logging.getLogger("django_dbqueue.worker")


class Timeouts:
    """A watch on the deliveries in threads. ``replace`` stops the child's claims; its supervisor settles the rest."""

    def __init__(
        self, consumers: Iterable[Consumer], holding: Holding, board: Board, replace: Callable[[], None]
    ) -> None:
        self._are_set = any(each.resolved().timeout is not None and not each.is_async for each in consumers)
        self._holding = holding
        self._board = board
        self._replace = replace

    def run(self, now: float) -> None:
        """Find what has run too long."""
        for delivery in self._watched():
            hangs_from = _hangs_from(delivery)
            if hangs_from is None or now < hangs_from or delivery.slot is None:
                continue
            delivery.timed_out = True
            if delivery.finished:  # just now, and the next of its group may have begun
                delivery.timed_out = False
                continue
            self._board.mark(delivery.slot, SlotState.TIMED_OUT)
            message = delivery.message
            logger.warning("message %s: %s", message.pk, timed_out(delivery.consumer, delivery.options, message))
            self._replace()
            announce_stuck(delivery, TIMEOUT)

    def until_next(self, now: float) -> float:
        """Return for how many seconds nothing will be due."""
        due = (moment - now for each in self._watched() if (moment := _hangs_from(each)) is not None)
        return max(0.0, min(due, default=LONG))

    def _watched(self) -> list[Delivery]:
        if not (self._are_set or self._holding.has_timeouts):
            return []
        return [each for each in self._holding.running() if not each.timed_out and not each.consumer.is_async]


def _hangs_from(delivery: Delivery) -> float | None:
    """Return when a handler has run too long; one that is cancelled at its timeout gets time to clean up."""
    if delivery.over_at is None:
        return None
    return delivery.over_at + (CANCEL_PATIENCE if delivery.cancels else 0.0)
