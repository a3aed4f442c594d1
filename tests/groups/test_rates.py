"""How many of a group may start in a time: the schedule, and the gate at the start of a handler (P19)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.databases import Server, Statement
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.lanes import rates_sql
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Group, Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.settable.rates import WrongRate, interval_of
from django_dbqueue.states.table import PARKED_AT
from django_dbqueue.testing import run_consumers
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.gate import held_back_of, reserve
from tests.factories import QUEUE, claim_one, claimed

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = 60_000_000


def configure(settings: SettingsWrapper, **options: Any) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: options}}


def send(*payloads: Any, group: str | None = "a", **options: Any) -> None:
    for payload in payloads:
        Message.objects.enqueue(payload, queue=QUEUE, group=group, **options)


def due() -> list[datetime]:
    """When the messages that have a ticket are due."""
    rows = Message.objects.filter(available_at__lt=PARKED_AT).order_by("available_at")
    return [at for at in rows.values_list("available_at", flat=True) if at is not None]


def gaps(moments: list[datetime]) -> list[float]:
    return [round((other - one).total_seconds(), 1) for one, other in pairwise(moments)]


def deliveries(number: int = 100) -> list[Delivery]:
    """As a worker claims them, whenever they are due."""
    Message.objects.filter(available_at__lt=PARKED_AT).update(available_at="2000-01-01T00:00:00+00:00")
    consumer = Consumer(QUEUE, lambda _: None)
    rated = set(Group.objects.exclude(rate=None).values_list("lane", flat=True))
    found = Claimer(Message, session_of("default"), QUEUE).take(number, lease=60, max_reads=5)
    return [Delivery(each, session_of("default"), consumer, consumer.resolved(), rated) for each in found]


@pytest.mark.parametrize(
    ("rate", "microseconds"), [("10/s", 100_000), ("7/s", 142_858), ("100/m", 600_000), ("5000/h", 720_000)]
)
def test_a_rate_is_an_interval_rounded_up(rate: str, microseconds: int) -> None:
    assert interval_of(rate) == microseconds


@pytest.mark.parametrize("rate", ["", "10", "0/s", "10/d", "-1/s", "1.5/s", "10/s\n", "10001/s", 10, None, b"1/s"])
def test_what_is_no_rate_is_refused(rate: Any) -> None:
    with pytest.raises(WrongRate, match="starts in a second"):
        interval_of(rate)


def test_starts_are_scheduled_an_interval_apart_when_they_are_kicked(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=4, group_rate="1/m")
    send(*range(6))
    assert gaps(due()) == [60.0, 60.0, 60.0]
    assert claimed() == [0]


def test_starts_are_scheduled_an_interval_apart_when_they_are_handed_over(settings: SettingsWrapper) -> None:
    configure(settings, group_rate="1/m")
    send(*range(3))
    first = claim_one()
    [slot] = Group.objects.values_list("scheduled", flat=True)
    first.ack()
    assert claimed() == []
    assert Group.objects.get().scheduled == slot + MINUTE  # type: ignore[operator]
    assert len(due()) == 2  # the first one, when it was done


def test_a_delay_of_one_holds_back_no_schedule(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=2, group_rate="1/m")
    send("later", delay=3_600)
    send("soon")
    [soon, later] = due()
    assert (later - soon).total_seconds() > 3_000
    assert claimed() == []  # a minute after the first one's place in the schedule


def test_each_start_is_reserved_one_interval_after_the_last(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=10, group_rate="1/m")
    send(*range(6))
    starts, reserved = [], []
    for delivery in deliveries():
        starts.append(reserve(delivery, 200.0))
        reserved.append(Group.objects.get().started or 0)
    assert [start.is_reserved for start in starts] == [True, True, True, True, False, False]
    assert starts[0].wait == 0
    assert all(60 * n - 20 < start.wait <= 60 * n for n, start in enumerate(starts[1:5], 1))
    assert [other - one for one, other in pairwise(reserved)] == [MINUTE, MINUTE, MINUTE, 0, 0]


@pytest.mark.parametrize("last", [3_600_000_000, 10 * 365 * 86_400_000_000])
def test_a_clock_that_went_back_stalls_no_group_and_its_rate_starts_again(
    settings: SettingsWrapper, caplog: pytest.LogCaptureFixture, last: int
) -> None:
    configure(settings, group_limit=10, group_rate="1/m")
    send(*range(3))
    first, second, third = deliveries()
    assert reserve(first).is_reserved
    Group.objects.update(started=F("started") + last)
    assert reserve(second) == (0, True)
    assert [record.message for record in caplog.records if "clock went back" in record.message]
    start = reserve(third)
    assert not start.is_reserved
    assert 50 < start.wait <= 60


def test_a_clock_that_was_read_before_a_wait_for_the_group_went_not_back(
    settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    configure(settings, group_limit=10, group_rate="1/m")
    send(*range(2))
    first, second = deliveries()
    assert reserve(first).is_reserved
    gate, waited = rates_sql.gate, 10_000_000

    def after_a_wait(server: Server, lanes: Sequence[int]) -> Statement:
        monkeypatch.setattr(rates_sql, "gate", gate)
        sql, params = gate(server, lanes)
        return Statement(sql.replace(server.clock_us, f"({server.clock_us} - {waited})"), params)

    monkeypatch.setattr(rates_sql, "gate", after_a_wait)
    start = reserve(second)
    assert not start.is_reserved
    assert 50 < start.wait <= 60
    assert "clock went back" not in caplog.text


def test_a_claim_by_hand_keeps_no_rate_and_counts_in_none(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=10, group_rate="1/m")
    send(*range(3))
    Message.objects.filter(available_at__lt=PARKED_AT).update(available_at="2000-01-01T00:00:00+00:00")
    assert claimed() == [0, 1, 2]
    assert Group.objects.get().started is None


def test_a_list_holds_one_of_each_group_that_has_a_rate(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=3, group_rate="1/m")
    send(1, 2, 3)
    send(4, 5, group="b")
    held = held_back_of(deliveries())
    assert sorted(delivery.message.payload for delivery, _ in held) == [2, 3, 5]
    assert {verdict.verb for _, verdict in held} == {"release"}
    assert all(40 < (verdict.delay or 0) <= 60 for _, verdict in held)


def test_a_rate_of_one_group_is_set_at_run_time_and_removed() -> None:
    send(1, 2, 3)
    Group.objects.limit(QUEUE, "a", 3)
    assert claimed() == [1, 2, 3]
    Message.objects.all().delete()
    Group.objects.rate(QUEUE, "b", "1/m")
    Group.objects.limit(QUEUE, "b", 3)
    send(1, 2, 3, group="b")
    assert claimed() == [1]
    Group.objects.rate(QUEUE, "b", "10000/s")
    assert claimed() == [2, 3]
    assert all(each.is_rated for each in deliveries())
    Group.objects.rate(QUEUE, "b", None)
    assert Group.objects.get(name="b").rate is None


def test_a_change_of_the_setting_forgets_what_was_scheduled_by_the_old_one(settings: SettingsWrapper) -> None:
    configure(settings, group_limit=20, group_rate="1/h")
    send(*range(20))
    Message.objects.drop_all("not needed")
    configure(settings, group_limit=2, group_rate="1/m")
    send("a", "b")
    moments = due()[-2:]
    assert gaps(moments) == [60.0]
    sent_at = Message.objects.latest("created_at").created_at
    assert (moments[0] - sent_at).total_seconds() < 60


def test_what_is_no_rate_is_refused_for_a_group() -> None:
    with pytest.raises(InvalidMessage, match='"10/s"'):
        Group.objects.rate(QUEUE, "a", "fast")
    assert not Group.objects.exists()


def test_a_group_with_a_limit_and_no_rate_pays_nothing() -> None:
    counts = []
    for limited in (False, True):
        if limited:
            Group.objects.limit(QUEUE, "a", 1)
        send(1, 2)
        message = claim_one()
        with CaptureQueriesContext(connection) as captured:
            message.ack()
        counts.append(len(captured.captured_queries))
        claim_one().ack()
    assert counts[0] == counts[1]
    assert not any(each.is_rated for each in deliveries())


def test_in_tests_no_time_passes_and_rates_hold_nothing_back(
    settings: SettingsWrapper, registry: dict[str, Consumer]
) -> None:
    configure(settings, group_rate="1/h", group_limit=2)
    seen: list[Any] = []
    registry[QUEUE] = Consumer(QUEUE, lambda message: seen.append(message.payload))
    send(*range(5))
    send("later", delay=60)
    assert len(run_consumers(QUEUE).done) == 5
    assert seen == [0, 1, 2, 3, 4]
