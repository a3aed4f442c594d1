"""run_consumers with handlers that settle their message themselves, or lose it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue import signals
from django_dbqueue.models import Message, Queue
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE, MessageFactory
from tests.testing.conftest import Consumes
from tests.testing.handlers import Trouble

pytestmark = pytest.mark.usefixtures("kind")


def _ack(message: Message) -> None:
    with transaction.atomic():
        Queue.objects.create(name="effect")
        message.ack()


def _ack_and_fail(message: Message) -> None:
    _ack(message)
    raise Trouble


def _nack(message: Message) -> None:
    message.nack(delay=60)


def _ack_and_roll_back(message: Message) -> None:
    with transaction.atomic():
        message.ack()
        transaction.set_rollback(True)


def _release(message: Message) -> None:
    Message.objects.filter(pk=message.pk).update(due_at=datetime(2060, 1, 1, tzinfo=UTC))
    message.release()


def _update(message: Message) -> None:
    new = Message.objects.enqueue("new", queue=QUEUE, key=message.key, delay=60, on_conflict="update")
    assert new.outcome == "updated"


def _drop(message: Message) -> None:
    assert Message.objects.drop(QUEUE, message.key or "")


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
@pytest.mark.parametrize(
    ("handler", "outcome"),
    [(_ack, "done"), (_nack, "waiting"), (_release, "waiting"), (_ack_and_roll_back, "done")],
)
def test_what_a_handler_settles_itself_stays_as_it_is_and_what_it_rolls_back_does_not_count(
    consumes: Consumes, handler: Any, outcome: str, transactional: bool
) -> None:
    consumes(handler, transactional=transactional)
    MessageFactory()
    drained = run_consumers(QUEUE)
    assert [each.outcome for each in drained] == [outcome]
    assert drained.errors == []
    assert drained[0].message.read_count == (0 if handler is _release else 1)


def test_a_message_that_the_handler_has_acked_stays_done_when_it_fails_after_that(consumes: Consumes) -> None:
    consumes(_ack_and_fail)
    MessageFactory()
    [handled] = run_consumers(QUEUE, on_error="collect")
    assert handled.outcome == "done"
    assert Queue.objects.filter(name="effect").exists()


@pytest.mark.parametrize("handler", [_update, _drop])
def test_a_claim_that_ends_under_the_handler_is_lost_and_no_failure_of_it(consumes: Consumes, handler: Any) -> None:
    lost = []
    consumes(handler)
    MessageFactory(key="k")
    signals.lease_lost.connect(listener := lambda **signal: lost.append(signal["verb"]))
    try:
        drained = run_consumers(QUEUE)
    finally:
        signals.lease_lost.disconnect(listener)
    assert [each.outcome for each in drained] == ["lost"]
    assert lost == ["ack"]
    assert drained.errors == []
