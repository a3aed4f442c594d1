"""What becomes of handlers whose messages were cancelled, or whose claims were lost otherwise.

A cancelled message was dead, and its claim gone, before its worker learns of it. A coroutine is cancelled, a handler in
a thread interrupted. What has not ended by the end of its grace hangs, and its child is replaced, as that of a handler
that ran too long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from django.db.models import Q

from django_dbqueue.models import Message, MessageEvent
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements.events_sql import CANCELS
from django_dbqueue.statuses import DONE, RUNNING
from django_dbqueue.worker import log_events
from django_dbqueue.worker.coroutines import CANCEL, place_of
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.stuck import announce_stuck

CHECKED_EVERY: Final = 1.0
"""Seconds between checks for what doesn't end."""

logger = logging.getLogger("django_dbqueue.worker")


def announce_lost(session: DjangoSession, deliveries: list[Delivery]) -> None:
    """Inform those of these deliveries whose claim is lost, and interrupt what runs of those that were cancelled."""
    rows = Message.objects.using(session.using).filter(pk__in=[delivery.claim.id for delivery in deliveries])
    # An ack keeps the worker in the row: the handler's own commit came a moment earlier, and that is no loss
    ours = rows.filter(Q(status=RUNNING) | Q(status=DONE, worker_id__isnull=False))
    tokens = dict(ours.values_list("pk", "claim_token"))
    lost = [each for each in deliveries if tokens.get(each.claim.id) != each.claim.token]
    lost = [each for each in lost if not (each.message.settled or each.finished)]
    cancelled = _cancelled_among(session, lost)
    for delivery in lost:
        if (why := cancelled.get(delivery)) is None:
            delivery.lose("extend")
        else:
            delivery.cancel(why)
            log_events.cancelled(delivery, why)
    for delivery in cancelled:
        if (call := delivery.call) is not None and call.cancelled_at is not None:
            call.interrupt()


def _cancelled_among(session: DjangoSession, lost: list[Delivery]) -> dict[Delivery, str]:
    """Return who cancelled these, and why, as their records say; a claim is known by its moment."""
    if not lost:
        return {}
    events = MessageEvent.objects.using(session.using).filter(exception=CANCELS)
    found = events.filter(message_id__in=[each.claim.id for each in lost]).order_by("pk")
    texts = {row[:2]: row[2] or "" for row in found.values_list("message_id", "claimed_at", "detail")}
    keys = {each: (each.claim.id, each.message.claimed_at) for each in lost}
    return {each: texts[key] for each, key in keys.items() if key in texts}


class Cancellations:
    """A watch on the cancelled deliveries in threads. ``replace`` stops the child's claims, and has it replaced."""

    def __init__(self, holding: Holding, grace: float, replace: Callable[[], None]) -> None:
        self._holding = holding
        self._grace = grace
        self._replace = replace
        self._check_at = 0.0

    def run(self, now: float) -> None:
        """Find what has not ended, name it, and give its child up."""
        if now < self._check_at:
            return
        self._check_at = now + CHECKED_EVERY
        for delivery in self._holding.running():
            call = delivery.call
            since = None if call is None else call.cancelled_at  # a list goes on while one of it is not cancelled
            if since is not None and call.is_swallowed:
                call.interrupt()
            if since is None or delivery.abandoned or now < since + self._grace:
                continue
            delivery.abandoned = True
            logger.error(
                "message %s: %s still runs %.1f s after it was cancelled, at %s: %s. Its child is replaced",
                delivery.claim.id, delivery.name, now - since, place_of(call.thread), call.why_it_runs(),
            )  # fmt: skip
            self._replace()
            announce_stuck(delivery, CANCEL)

    def until_next(self, _now: float) -> float:
        """Return for how many seconds nothing has to be checked."""
        return CHECKED_EVERY
