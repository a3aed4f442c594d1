"""What a module of consumers imports: ``@consumer``, and the exceptions by which a handler decides."""

from __future__ import annotations

from datetime import timedelta

from django_dbqueue.consumers.registry import consumer as consumer
from django_dbqueue.envelope import check_seconds


class Retry(Exception):
    """Raised by a handler: deliver the message again in ``after`` seconds (default: the usual back-off)."""

    after: float | timedelta | None = None  # also for a subclass whose __init__ doesn't call this one

    def __init__(self, reason: str = "", *, after: float | timedelta | None = None) -> None:
        self.after = None if after is None else check_seconds("after", after)
        super().__init__(reason or "the handler asked for a retry")


class Reject(Exception):
    """Raised by a handler: send the message to the dead letters, with the reason."""
