"""A worker is called by a mark in its row: its beat meets it, and otherwise costs what it cost."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.consumers import registry
from django_dbqueue.liveness.late_workers import BEAT_HOLDING
from django_dbqueue.liveness.presence import Presence
from django_dbqueue.models import Message, Worker
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.heartbeat import Heartbeat
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.sleepers import Sleepers
from tests.factories import QUEUE, as_claimed, held

pytestmark = pytest.mark.django_db(transaction=True)

NUMBER = 7


class Child:
    """A child's row, its heartbeat and what it holds."""

    def __init__(self) -> None:
        session = DjangoSession("default")
        self.presence = Presence(session, NUMBER, [QUEUE], 1)
        self.holding = Holding(Board(4))
        self.heartbeat = Heartbeat(session, self.presence, self.holding, Sleepers(1).seat(0), orphaned=lambda: None)
        self.presence.connect(held=0)

    def hold(self, message: Message, *, began_at: float = math.inf) -> Delivery:
        consumer = registry.Consumer(QUEUE, lambda _message: None)
        Message.objects.filter(pk=message.pk).update(worker_id=NUMBER)
        delivery = Delivery(as_claimed(message), session_of("default"), consumer, consumer.resolved(), frozenset())
        self.holding.keep(delivery, began_at=began_at)
        return delivery

    def beat(self) -> None:
        self.presence.beat(held=len(self.holding), every=BEAT_HOLDING)

    def check(self) -> None:
        self.heartbeat._check_if_called()


@pytest.fixture
def child() -> Child:
    return Child()


def sent(work: Any) -> list[str]:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        work()
    return [query["sql"] for query in queries]


def test_while_nothing_is_cancelled_a_beat_is_the_statement_that_it_was(child: Child) -> None:
    child.hold(held())
    child.beat()
    statements = [sql for sql in sent(child.beat) if "django_dbqueue" in sql]
    assert [sql.split()[0] for sql in statements] == ["UPDATE"]
    assert sent(child.check) == []


def test_what_was_cancelled_is_found_at_the_next_beat_and_the_mark_is_gone(child: Child) -> None:
    message, other = child.hold(held()), child.hold(held(queue="other"))
    child.beat()
    child.check()
    Message.objects.cancel(message.claim.id, reason="the wrong file", by="ann")
    assert Worker.objects.get(pk=NUMBER).is_called
    child.beat()
    child.check()
    assert not Worker.objects.get(pk=NUMBER).is_called
    assert message.message.cancelled == "Cancelled by ann: the wrong file"
    assert (message.is_lost, message.cancelled_at is None) == (True, False)
    assert (other.is_lost, other.message.cancelled, other.cancelled_at) == (False, "", None)


def test_it_checks_again_for_a_claim_whose_reply_was_on_its_way_however_late_it_comes(child: Child) -> None:
    began_at, message = time.monotonic(), held()
    Message.objects.filter(pk=message.pk).update(worker_id=NUMBER)
    Message.objects.cancel(message.pk, reason="r")
    child.beat()
    child.check()
    assert sent(child.check) == [], "nothing else is checked twice"
    late = child.hold(message, began_at=began_at)
    Message.objects.filter(pk=message.pk).update(worker_id=None)
    child.check()
    assert late.cancelled_at is not None
    assert sent(child.check) == []


def test_a_claim_that_began_after_the_check_brings_nothing_that_was_cancelled_before(child: Child) -> None:
    child.presence.is_called = True
    child.check()
    child.hold(held(), began_at=time.monotonic())
    assert sent(child.check) == []


def test_a_beat_whose_reply_is_lost_forgets_no_call(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    message = child.hold(held())
    child.beat()
    Message.objects.cancel(message.claim.id, reason="r")
    real = type(Worker.objects.all()).update

    def lose(rows: Any, **fields: Any) -> int:
        count = real(rows, **fields)
        if fields.get("is_called") is False:
            raise ConnectionError("the reply was lost")
        return count

    with monkeypatch.context() as patched:
        patched.setattr(type(Worker.objects.all()), "update", lose)
        with pytest.raises(ConnectionError):
            child.beat()
    child.beat()
    child.check()
    assert message.cancelled_at is not None


def test_what_was_lost_otherwise_is_not_called_cancelled(child: Child) -> None:
    dropped, cancelled = child.hold(held()), child.hold(held(queue="other"))
    Message.objects.filter(pk=dropped.claim.id).drop_all("unwanted")
    Message.objects.cancel(cancelled.claim.id, reason="r")
    child.beat()
    child.check()
    assert (dropped.is_lost, dropped.cancelled_at, dropped.message.cancelled) == (True, None, "")
    assert cancelled.cancelled_at is not None


def test_an_earlier_cancel_of_the_same_message_is_not_this_ones(child: Child) -> None:
    first = held()
    Message.objects.cancel(first.pk, reason="r")
    Message.objects.filter(pk=first.pk).requeue()
    again = child.hold(Message.objects.claim(1, queue=QUEUE)[0])
    Message.objects.filter(pk=first.pk).drop_all("unwanted")
    child.presence.is_called = True
    child.check()
    assert (again.is_lost, again.cancelled_at) == (True, None)
