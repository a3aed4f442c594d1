"""The example project's consumers: each departure is counted once, and a long delay is told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_dbqueue import LeaseLost, Reject, Retry
from django_dbqueue.models import Message
from example_project.flights.departures import ALERTS_QUEUE, DEPARTURES_QUEUE, SHIPPED_FILE, read_departures
from example_project.flights.ingest import ingest
from example_project.flights.models import AirportDelay, CarrierDelay, DelayNotice
from example_project.flights.queue_consumers import NoticeServiceDown, record_departure, send_delay_notice
from tests.factories import claim_one
from tests.flights.departures import CANCELLED, LATE, UNLUCKY_KEY, VERY_LATE, write_file

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_departure_is_counted_for_its_airport_and_its_carrier(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", LATE))
    record_departure(claim_one(DEPARTURES_QUEUE))
    for totals in (AirportDelay.objects.get(airport="EWR"), CarrierDelay.objects.get(carrier="UA")):
        assert (totals.departures, totals.late, totals.late_minutes, totals.early_minutes) == (1, 1, 2, 0)
    assert Message.objects.done(DEPARTURES_QUEUE).count() == 1
    assert not Message.objects.ready(ALERTS_QUEUE).exists()


def test_a_long_delay_is_counted_and_its_alert_waits(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", VERY_LATE))
    record_departure(claim_one(DEPARTURES_QUEUE))
    assert AirportDelay.objects.get(airport="JFK").late_minutes == 853
    assert Message.objects.ready(ALERTS_QUEUE).get().key == "MQ-3944-2013-01-01-18:35"


def test_a_cancelled_departure_is_rejected_with_the_reason(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", CANCELLED))
    with pytest.raises(Reject, match="cancelled: no departure time"):
        record_departure(claim_one(DEPARTURES_QUEUE))
    assert AirportDelay.objects.get(airport="EWR").departures == 0


def test_an_airport_that_no_ingest_opened_is_rejected() -> None:
    departure = next(read_departures(SHIPPED_FILE))
    Message.objects.enqueue(departure.payload, queue=DEPARTURES_QUEUE)
    with pytest.raises(Reject, match="ingest_flights creates them"):
        record_departure(claim_one(DEPARTURES_QUEUE))


def test_who_lost_the_claim_counts_nothing_and_sends_no_alert(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", VERY_LATE))
    loser = claim_one(DEPARTURES_QUEUE)
    Message.objects.filter(pk=loser.pk).requeue()
    winner = claim_one(DEPARTURES_QUEUE)

    with pytest.raises(LeaseLost):
        record_departure(loser)
    assert AirportDelay.objects.get(airport="JFK").departures == 0
    assert not Message.objects.ready(ALERTS_QUEUE).exists()

    record_departure(winner)
    assert AirportDelay.objects.get(airport="JFK").departures == 1
    assert Message.objects.ready(ALERTS_QUEUE).count() == 1


@pytest.mark.parametrize(("key", "failure"), [(UNLUCKY_KEY, NoticeServiceDown), ("UA-1086-2013-01-01-09:00", Retry)])
def test_a_notice_that_fails_once_is_sent_by_the_second_delivery(key: str, failure: type[Exception]) -> None:
    Message.objects.enqueue({"departure": key, "origin": "EWR", "minutes_late": 144}, queue=ALERTS_QUEUE, key=key)
    first = claim_one(ALERTS_QUEUE)
    with pytest.raises(failure):
        send_delay_notice(first)
    assert not DelayNotice.objects.exists()

    first.nack(delay=0)
    send_delay_notice(claim_one(ALERTS_QUEUE))
    assert DelayNotice.objects.get().attempts == 2
