"""The consumers of the two queues; the worker finds this module by its name.

`departures` counts: its rows and the ack are one commit, so a departure is counted exactly once, whatever
dies meanwhile. `delay-alerts` tells a notice service about long delays. The service is pretended, and fails
on the first delivery of every fourth notice, always the same ones, so that there is something to retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from django.db.models import F

from django_dbqueue import Reject, Retry, consumer
from django_dbqueue.models import Message

from .departures import ALERT_AFTER_MINUTES, ALERTS_QUEUE, DEPARTURES_QUEUE
from .models import AirportDelay, CarrierDelay, DelayNotice

if TYPE_CHECKING:
    from django.db.models import QuerySet


class NoticeServiceDown(Exception):
    """The notice service didn't answer. Any exception but `Retry` and `Reject` is retried with back-off."""


@consumer(DEPARTURES_QUEUE, max_reads=5)
def record_departure(message: Message) -> None:
    departure = message.payload
    delay = departure["delay_minutes"]
    if departure["departed"] is None or delay is None:
        raise Reject("cancelled: no departure time")

    with message.transaction():
        # Always airport before carrier: two workers that lock the same rows in the same order can't deadlock.
        _count(AirportDelay.objects.filter(airport=departure["origin"]), delay)
        _count(CarrierDelay.objects.filter(carrier=departure["carrier"]), delay)
        if delay > ALERT_AFTER_MINUTES:
            # Joins this transaction: there is an alert if and only if the departure was counted.
            Message.objects.enqueue(
                {"departure": message.key, "origin": departure["origin"], "minutes_late": delay},
                queue=ALERTS_QUEUE,
                key=message.key,
            )


def _count(totals: QuerySet[AirportDelay] | QuerySet[CarrierDelay], delay: int) -> None:
    counted = totals.update(
        departures=F("departures") + 1,
        late=F("late") + (1 if delay > 0 else 0),
        late_minutes=F("late_minutes") + max(delay, 0),
        early_minutes=F("early_minutes") + max(-delay, 0),
    )
    if not counted:
        raise Reject(f"{totals.model._meta.verbose_name}: no such row; ingest_flights creates them")


@consumer(ALERTS_QUEUE, max_reads=5, backoff=0.5)
def send_delay_notice(message: Message) -> None:
    alert = message.payload
    _call_notice_service(alert["departure"], attempt=message.read_count)
    with message.transaction():
        DelayNotice.objects.create(
            departure=alert["departure"],
            origin=alert["origin"],
            minutes_late=alert["minutes_late"],
            attempts=message.read_count,
        )


def _call_notice_service(departure: str, *, attempt: int) -> None:
    """Fails at times: it says when to come back, or says nothing and breaks."""
    if attempt > 1:
        return
    mood = crc32(departure.encode()) % 8
    if mood == 0:
        raise Retry(after=1)
    if mood == 1:
        raise NoticeServiceDown(f"no answer about {departure}")
