"""The queue of bulk operations, which every worker serves itself: no consumer and no task can have it."""

from __future__ import annotations

from django.core import checks

from django_dbqueue import conf


def check_reserved(queue: str, holder: str) -> list[checks.CheckMessage]:
    """Return the error if this queue, which a consumer or a backend of tasks has, is reserved."""
    if queue != conf.get("OPERATIONS_QUEUE"):
        return []
    return [
        checks.Error(
            f"{holder} has the queue {queue!r}, which is reserved for bulk operations.",
            hint=f"Give it another queue, or name another one in {conf.NAME}['OPERATIONS_QUEUE'].",
            id="dbqueue.E026",
        )
    ]
