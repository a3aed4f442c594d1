"""What is wrong with a queue, in the words of ``queue_status --check``."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from django_dbqueue.insight.overview import QueueOverview

TROUBLES: Final = ("stuck", "dead", "paused", "no-worker", "old")


def troubles(
    each: QueueOverview, now: datetime, max_age: float | None = None, ignored: Collection[str] = ()
) -> list[str]:
    """Return what is wrong with a queue at a moment; ``max_age``: seconds that a ready message may wait."""
    is_old = (
        max_age is not None and each.oldest_ready is not None and now - each.oldest_ready > timedelta(seconds=max_age)
    )
    found = {
        "stuck": each.counts["stuck"] > 0,
        "dead": each.counts["dead"] > 0,
        "paused": each.queue.is_paused,
        "no-worker": each.is_waiting and not each.workers,
        "old": is_old,
    }
    return [name for name in TROUBLES if found[name] and name not in ignored]
