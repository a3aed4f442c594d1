"""The gate of groups with a rate: each start of a handler is reserved in the group's row, by the database's clock.

The schedule, which decides when the next of a group is due, is not enough: a claim may come late, or fetch ahead, and
then many would start at once. A reservation is the larger of now and one interval after the last one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from django.db import Error

from django_dbqueue.conf import QueueOptions
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.lanes import rates_sql
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.settable.rates import interval_of
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import NOTHING, RELEASE_PAUSE, Verdict
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.thread_connections import leave_clean

logger = logging.getLogger("django_dbqueue.worker")
PATIENCE: Final = 1.0
"""Seconds that a message waits for its start in its thread, or coroutine; it is released for a longer wait."""
SLACK: Final = 5.0
"""Seconds by which the clocks of two statements may differ that ran one after the other."""


def in_a_row(consumer: Consumer, options: QueueOptions) -> int:
    """Return how many of a group are taken at once. By a rate, those behind wait in the worker for their starts."""
    if options.group_rate is None:
        return options.group_batch
    return 1 if consumer.batch or interval_of(options.group_rate) > 1_000_000 * PATIENCE else options.group_batch


class Start(NamedTuple):
    """In how many seconds a message may start; whether that start is reserved for it."""

    wait: float
    is_reserved: bool


def reserve(delivery: Delivery, patience: float = PATIENCE) -> Start:
    """Reserve the next start of this message's group, unless it is more than ``patience`` seconds away."""
    return _reserve_all([delivery], patience)[0]


def _reserve_all(deliveries: Sequence[Delivery], patience: float) -> list[Start]:
    """Reserve the next start of each group among these messages, unless it is more than ``patience`` seconds away."""
    try:
        session = deliveries[0].session
        return session.outermost(partial(_reserve, session, deliveries, patience))
    except Error:
        return [Start(RELEASE_PAUSE, is_reserved=False)] * len(deliveries)  # the main thread says that it is away
    finally:
        leave_clean()


def _reserve(session: DjangoSession, deliveries: Sequence[Delivery], patience: float) -> list[Start]:
    lanes = sorted({each.lane for each in deliveries if each.lane is not None})
    found: list[Start] = []
    starts: dict[int, int] = {}
    with session.transaction():
        rows = session.fetch(rates_sql.gate(session.server, lanes))
        if len(rows) < len(lanes):  # what had a ticket before there was a rate
            session.run(rates_sql.make_groups(session.server, [each.claim.id for each in deliveries]))
            rows = session.fetch(rates_sql.gate(session.server, lanes))
        if any(_is_beyond_all(last, now, patience) for _, _, last, now in rows):
            rows = session.fetch(rates_sql.gate(session.server, lanes))  # the clock was read before a wait for the rows
        groups = {lane: (own, _unless_clock_went_back(last, now, patience), now) for lane, own, last, now in rows}
        for delivery in deliveries:
            lane = delivery.lane or 0
            own, last, now = groups.get(lane, (None, None, 0))
            rate, last = own or delivery.options.group_rate, starts.get(lane, last)
            moment = now if rate is None or last is None else max(now, last + interval_of(rate))
            start = Start((moment - now) / 1_000_000, is_reserved=lane not in starts and moment <= now + patience * 1e6)
            if start.is_reserved:
                starts[lane] = moment
            found.append(start)
        if starts:
            session.run(rates_sql.start(session.server, sorted(starts.items())))
    return found


def _is_beyond_all(last: int | None, now: int, patience: float) -> bool:
    """Return whether a group's last start is further in the future than anybody would have reserved it."""
    return last is not None and last > now + (max(patience, PATIENCE) + SLACK) * 1_000_000


def _unless_clock_went_back(last: int | None, now: int, patience: float) -> int | None:
    if last is None or not _is_beyond_all(last, now, patience):
        return last
    logger.warning(
        "The database's clock went back: the last start of a group is %.0f s in its future. Its rate starts again.",
        (last - now) / 1_000_000,
    )
    return None


def held_back(delivery: Delivery, holding: Holding) -> Verdict | None:
    """Wait for the start of a message in its thread; return what becomes of it if it can't start now."""
    holding.hold_back(delivery)
    start = reserve(delivery)
    if not start.is_reserved:
        return released(delivery, start)
    if start.wait:
        time.sleep(start.wait)
    return None if holding.start_again(delivery) else NOTHING


def released(delivery: Delivery, start: Start) -> Verdict:
    """Return that a message is due again when it may start."""
    delivery.started_at = time.monotonic()  # it has taken no time
    return Verdict("release", start.wait)


def held_back_of(deliveries: Sequence[Delivery]) -> list[tuple[Delivery, Verdict]]:
    """Return those of a list that can't start now, and when they can: a list starts at one moment, and never waits.

    So it holds at most one of each group that has a rate.
    """
    rated = [delivery for delivery in deliveries if delivery.is_rated]
    starts = zip(rated, _reserve_all(rated, 0.0) if rated else (), strict=True)
    return [(delivery, Verdict("release", start.wait)) for delivery, start in starts if not start.is_reserved]
