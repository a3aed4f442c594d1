"""Who listens may fail; who tells has committed already, and must go on with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_dbqueue import signals
from django_dbqueue.consumers import registry
from django_dbqueue.exceptions import LeaseLost
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.heartbeat import extend
from tests.factories import QUEUE, as_claimed, held, stuck, waiting

pytestmark = pytest.mark.django_db


def fail(*, signal: Any, **_: Any) -> None:
    raise ValueError("a listener's own")


@pytest.fixture
def listeners_fail(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    events = [each for each in vars(signals).values() if isinstance(each, signals.EventSignal)]
    for event in events:
        event.connect(fail)
    yield
    for event in events:
        event.disconnect(fail)
    texts = [record.getMessage() for record in caplog.get_records("call") if record.name == signals.__name__]
    assert texts
    assert all("a listener's own" in text for text in texts)


def lost_claim() -> Message:
    message = held()
    Message.objects.filter(pk=message.pk).drop_all("unwanted")
    return message


@pytest.mark.usefixtures("listeners_fail")
def test_a_holder_learns_that_the_claim_is_lost_whatever_a_listener_does() -> None:
    with pytest.raises(LeaseLost):
        lost_claim().ack()
    lost, kept = lost_claim(), held()
    assert Message.objects.ack([lost, kept]) == [lost]
    assert kept.pk in Message.objects.done(QUEUE).values_list("pk", flat=True)


@pytest.mark.usefixtures("listeners_fail")
def test_a_rescue_goes_on_to_its_end_whatever_a_listener_does() -> None:
    stuck(priority=1)
    stuck(priority=2)
    assert Message.objects.rescue(QUEUE) == 2


def test_a_death_in_a_rescue_names_its_attempt() -> None:
    attempts: list[int] = []

    def hear(attempt: int, **_: Any) -> None:
        attempts.append(attempt)

    signals.message_died.connect(hear)
    message = stuck(max_reads=1)
    Message.objects.rescue(QUEUE)
    signals.message_died.disconnect(hear)
    assert attempts == [Message.objects.get(pk=message.pk).read_count]


@pytest.mark.usefixtures("listeners_fail")
def test_a_claim_that_buries_returns_what_it_took_whatever_a_listener_does() -> None:
    spent = waiting(max_reads=1)
    Message.objects.filter(pk=spent.pk).update(read_count=1)
    message = waiting()
    assert [each.pk for each in Message.objects.claim(2, queue=QUEUE)] == [message.pk]


@pytest.mark.usefixtures("listeners_fail")
def test_the_heartbeat_informs_every_handler_whatever_a_listener_does() -> None:
    consumer = registry.Consumer(QUEUE, fail)
    deliveries = [
        Delivery(as_claimed(lost_claim()), session_of("default"), consumer, consumer.resolved(), frozenset())
        for _ in range(2)
    ]
    extend(DjangoSession("default"), deliveries)
    assert [each.message.lease_lost for each in deliveries] == [True, True]
