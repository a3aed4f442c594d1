"""The consumers of the queues; the worker finds this module by its name.

`departures` counts, a hundred at once: its rows and the acks are one commit, so a departure is counted exactly
once, whatever dies meanwhile. Those of one aircraft are a group, and so they come in order. `delay-alerts` tells a
notice service about long delays. The service is pretended, and fails on the first delivery of every fourth notice,
always the same ones, so that there is something to retry.

Once all departures of an airport's file have ended, `airport-counts` counts them, and `airport-reports` tells the
notice service of the airport, in a step: a report that is delivered again doesn't tell it again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import sha256
from typing import TYPE_CHECKING
from zlib import crc32

from django.db.models import F

from django_dbqueue import Reject, Retry, consumer
from django_dbqueue.models import Flow, Message

from .departures import ALERT_AFTER_MINUTES, ALERTS_QUEUE, COUNTS_QUEUE, DEPARTURES_QUEUE, REPORTS_QUEUE
from .models import Aircraft, AirportDelay, AirportNotice, AirportReport, CarrierDelay, DelayNotice

if TYPE_CHECKING:
    from django.db.models import QuerySet


class NoticeServiceDown(Exception):
    """The notice service didn't answer. Any exception but `Retry` and `Reject` is retried with back-off."""


@consumer(DEPARTURES_QUEUE, max_reads=5, batch=100, transactional=True)
def record_departures(messages: list[Message]) -> None:
    airports: dict[str, Counter[str]] = defaultdict(Counter)
    carriers: dict[str, Counter[str]] = defaultdict(Counter)
    flown: dict[str, list[str]] = defaultdict(list)
    for message in messages:
        departure = message.payload
        delay = departure["delay_minutes"]
        if departure["departed"] is None or delay is None:
            message.reject("cancelled: no departure time")
            continue
        counted = {
            "departures": 1,
            "late": int(delay > 0),
            "late_minutes": max(delay, 0),
            "early_minutes": max(-delay, 0),
        }
        airports[departure["origin"]].update(counted)
        carriers[departure["carrier"]].update(counted)
        if message.group is not None:
            flown[message.group].append(str(message.key))
        if delay > ALERT_AFTER_MINUTES:
            # Joins the transaction of all of them: there is an alert if and only if the departure was counted.
            Message.objects.enqueue(
                {"departure": message.key, "origin": departure["origin"], "minutes_late": delay},
                queue=ALERTS_QUEUE,
                key=message.key,
            )
    _follow(flown)
    # Always airports before carriers, each in order: two workers that lock the same rows in the same order can't
    # deadlock. Last of all, so that they are locked only for a moment.
    for airport in sorted(airports):
        _count(AirportDelay.objects.filter(airport=airport), airports[airport])
    for carrier in sorted(carriers):
        _count(CarrierDelay.objects.filter(carrier=carrier), carriers[carrier])


def _follow(flown: dict[str, list[str]]) -> None:
    """Adds departures to the trails of their aircraft. No lock: nobody else has one of the same aircraft now."""
    aircraft = list(Aircraft.objects.filter(tail_number__in=flown))
    for each in aircraft:
        for key in flown[each.tail_number]:
            each.departures += 1
            each.trail = sha256(f"{each.trail} {key}".encode()).hexdigest()
    Aircraft.objects.bulk_update(aircraft, ["departures", "trail"])


def _count(totals: QuerySet[AirportDelay] | QuerySet[CarrierDelay], counted: Counter[str]) -> None:
    if not totals.update(**{name: F(name) + number for name, number in counted.items()}):
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


@consumer(COUNTS_QUEUE, max_reads=5)
def count_departures(message: Message) -> dict[str, int]:
    """Hands on to the report how many departures of the flow took place, and how many were cancelled."""
    stages = Flow.objects.get(pk=message.flow).progress().stages
    ended = {stage.state: stage.messages for stage in stages if stage.queue == DEPARTURES_QUEUE}
    return {"departures": ended.get("done", 0), "cancelled": ended.get("dead", 0)}


@consumer(REPORTS_QUEUE, max_reads=5)
def report_airport(message: Message) -> None:
    [counted] = message.results()
    message.step("notice", _tell_of_airport, message.payload["airport"], message.flow)
    _print_report(attempt=message.read_count)
    with message.transaction():
        AirportReport.objects.filter(flow=message.flow).update(attempts=message.read_count, **counted)


def _tell_of_airport(airport: str, flow: int) -> int:
    """What the service has heard stays heard, whatever becomes of the report."""
    return AirportNotice.objects.create(airport=airport, flow=flow).pk


def _print_report(*, attempt: int) -> None:
    """The printer is pretended, and jams at the first delivery, so that the second finds the step done."""
    if attempt == 1:
        raise Retry(after=0)
