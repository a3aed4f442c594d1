"""Tells listeners of a handler that should have ended, and runs on: its child is given up, and is not yet gone."""

from __future__ import annotations

import sys
import time
import traceback

from django_dbqueue import signals
from django_dbqueue.worker.delivery import Delivery


def announce_stuck(delivery: Delivery, after: str) -> None:
    """Send ``handler_stuck``, once for a delivery; ``after``: what should have ended its handler."""
    if delivery.is_announced_stuck or delivery.started_at is None:
        return
    delivery.is_announced_stuck = True
    message, call = delivery.message, delivery.call
    signals.handler_stuck.send(
        type(message),
        queue=message.queue,
        message_id=message.pk,
        handler=delivery.name,
        seconds=time.monotonic() - delivery.started_at,
        after=after,
        stack=_stack_of(None if call is None else call.thread),
    )


def _stack_of(thread: int | None) -> str:
    """Return where in the code a thread is, from the outermost call to the innermost."""
    frame = sys._current_frames().get(thread or 0)
    return "" if frame is None else "".join(traceback.format_stack(frame))
