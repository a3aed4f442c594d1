"""The example project's consumers: each departure is counted once, and a long delay is told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_dbqueue import LeaseLost, Reject, Retry
from django_dbqueue.lifecycle.acked_transaction import acked_with_their_rows
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.testing import run_consumers
from example_project.flights.departures import (
    ALERTS_QUEUE,
    COUNTS_QUEUE,
    DEPARTURES_QUEUE,
    REPORTS_QUEUE,
    SHIPPED_FILE,
    read_departures,
)
from example_project.flights.ingest import ingest
from example_project.flights.models import AirportDelay, AirportNotice, AirportReport, CarrierDelay, DelayNotice
from example_project.flights.queue_consumers import (
    NoticeServiceDown,
    record_departures,
    report_airport,
    send_delay_notice,
)
from tests.factories import claim_one
from tests.flights.departures import CANCELLED, LATE, UNLUCKY_KEY, VERY_LATE, write_file

pytestmark = pytest.mark.django_db(transaction=True)


def count(*messages: Message) -> None:
    """Count them as a worker has them counted: in one commit with the acks."""
    with acked_with_their_rows(messages, session_of("default")):
        record_departures([*messages])


def test_a_departure_is_counted_for_its_airport_and_its_carrier(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", LATE))
    count(claim_one(DEPARTURES_QUEUE))
    for totals in (AirportDelay.objects.get(airport="EWR"), CarrierDelay.objects.get(carrier="UA")):
        assert (totals.departures, totals.late, totals.late_minutes, totals.early_minutes) == (1, 1, 2, 0)
    assert Message.objects.done(DEPARTURES_QUEUE).count() == 1
    assert not Message.objects.ready(ALERTS_QUEUE).exists()


def test_departures_are_counted_together(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "three.csv", LATE, VERY_LATE, CANCELLED))
    count(*(claim_one(DEPARTURES_QUEUE) for _ in range(3)))
    assert sum(AirportDelay.objects.values_list("departures", flat=True)) == 2
    assert sum(CarrierDelay.objects.values_list("late_minutes", flat=True)) == 2 + 853
    assert Message.objects.done(DEPARTURES_QUEUE).count() == 2
    assert Message.objects.dead(DEPARTURES_QUEUE).count() == 1


def test_a_long_delay_is_counted_and_its_alert_waits(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", VERY_LATE))
    count(claim_one(DEPARTURES_QUEUE))
    assert AirportDelay.objects.get(airport="JFK").late_minutes == 853
    assert Message.objects.ready(ALERTS_QUEUE).get().key == "MQ-3944-2013-01-01-18:35"


def test_a_cancelled_departure_is_rejected_with_the_reason(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", CANCELLED))
    count(claim_one(DEPARTURES_QUEUE))
    assert "cancelled: no departure time" in str(Message.objects.dead(DEPARTURES_QUEUE).get().error)
    assert AirportDelay.objects.get(airport="EWR").departures == 0


def test_an_airport_that_no_ingest_opened_is_rejected() -> None:
    departure = next(read_departures(SHIPPED_FILE))
    Message.objects.enqueue(departure.payload, queue=DEPARTURES_QUEUE)
    with pytest.raises(Reject, match="ingest_flights creates them"):
        count(claim_one(DEPARTURES_QUEUE))


def test_who_lost_the_claim_counts_nothing_and_sends_no_alert(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "one.csv", VERY_LATE))
    loser = claim_one(DEPARTURES_QUEUE)
    Message.objects.filter(pk=loser.pk).requeue()
    winner = claim_one(DEPARTURES_QUEUE)

    with pytest.raises(LeaseLost):
        count(loser)
    assert AirportDelay.objects.get(airport="JFK").departures == 0
    assert not Message.objects.ready(ALERTS_QUEUE).exists()

    count(winner)
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


def test_a_report_that_is_delivered_again_does_not_call_the_service_again(tmp_path: Path) -> None:
    ingest(write_file(tmp_path / "two.csv", LATE, CANCELLED))
    count(*(claim_one(DEPARTURES_QUEUE) for _ in range(2)))
    [counted] = run_consumers(COUNTS_QUEUE)
    assert counted.outcome == "done"

    first = claim_one(REPORTS_QUEUE)
    with pytest.raises(Retry):
        report_airport(first)
    assert AirportNotice.objects.get().airport == "EWR"
    assert AirportReport.objects.get().attempts is None

    first.nack(delay=0)
    report_airport(claim_one(REPORTS_QUEUE))
    assert AirportNotice.objects.count() == 1
    report = AirportReport.objects.get()
    assert (report.departures, report.cancelled, report.attempts) == (1, 1, 2)
