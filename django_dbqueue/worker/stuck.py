"""Tells listeners of a handler that should have ended, and runs on: its child is given up, and is not yet gone.

A listener may wait for what this very handler holds, such as a row under lock, which only the end of the child frees.
So listeners get a thread of their own, and the child waits for them in bounds.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Final

from django_dbqueue import signals
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.thread_connections import discard_all

PATIENCE: Final = 5.0
"""Seconds that a child waits for listeners before it continues without them."""

logger = logging.getLogger("django_dbqueue.worker")

_late: list[threading.Thread] = []
"""Threads of listeners for which this process has waited long enough."""


def announce_stuck(delivery: Delivery, after: str) -> None:
    """Send ``handler_stuck``, once for a delivery; ``after``: what should have ended its handler."""
    if delivery.is_announced_stuck or delivery.started_at is None:
        return
    delivery.is_announced_stuck = True
    message, call = delivery.message, delivery.call
    _call_listeners(
        partial(
            signals.handler_stuck.send,
            type(message),
            queue=message.queue,
            message_id=message.pk,
            handler=delivery.name,
            seconds=time.monotonic() - delivery.started_at,
            after=after,
            stack=_stack_of(None if call is None else call.thread),
        )
    )


def _call_listeners(send: Callable[[], object]) -> None:
    """Call the listeners, and wait for their end; but don't wait again while an earlier call has not ended."""

    def call() -> None:
        try:
            send()
        finally:
            discard_all()

    is_waited_for = not any(each.is_alive() for each in _late)
    thread = threading.Thread(target=call, name="dbqueue-stuck", daemon=True)
    thread.start()
    thread.join(PATIENCE if is_waited_for else 0)
    if thread.is_alive():
        _late.append(thread)
        if is_waited_for:
            logger.error("a listener of handler_stuck still runs after %g s: its child continues without it", PATIENCE)


def _stack_of(thread: int | None) -> str:
    """Return where in the code a thread is, from the outermost call to the innermost."""
    frame = sys._current_frames().get(thread or 0)
    return "" if frame is None else "".join(traceback.format_stack(frame))
