"""A settlement is part of the transaction that it stands in, the caller's or ``message.transaction()`` (P15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue import LeaseLost
from django_dbqueue.models import Message
from tests.factories import QUEUE, held, held_many, row, rows, waiting
from tests.lifecycle.losing import LOST_BY, VERBS
from tests.lifecycle.rollback import Abandoned, rolled_back

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)

# A settlement joins the caller's transaction


@transactional
def test_a_settlement_is_remembered_with_the_commit_and_not_before() -> None:
    message = held()
    with transaction.atomic():
        message.ack()
        assert not message.settled
        assert message.status == "y"
    assert message.settled


@transactional
@pytest.mark.parametrize("verb", VERBS)
def test_a_settlement_in_a_transaction_that_rolls_back_did_not_happen(verb: str) -> None:
    message = held(key="k")
    before = row(message)
    for call in (lambda: VERBS[verb][0](message), lambda: VERBS[verb][1]([message])):
        with rolled_back():
            call()
        assert row(message) == before
        assert not message.settled
        assert message.status == "run"
    message.ack()
    assert message.settled


@transactional
def test_a_settlement_in_a_savepoint_that_rolls_back_did_not_happen() -> None:
    message = held()
    with transaction.atomic():
        with rolled_back():
            message.ack()
        assert message.status == "run"
    assert not message.settled
    message.ack()


@transactional
def test_an_extension_settles_nothing() -> None:
    message = held()
    message.extend(5)
    assert not message.settled


@transactional
def test_work_and_ack_in_one_atomic_are_one_commit() -> None:
    message = held()
    with rolled_back():
        waiting(payload="the work")
        message.ack()
    assert (Message.objects.count(), row(message)["status"]) == (1, "run")
    with transaction.atomic():
        waiting(payload="the work")
        message.ack()
    assert (Message.objects.count(), row(message)["status"]) == (2, "y")


@transactional
def test_a_batch_that_lost_some_leaves_the_callers_transaction_usable() -> None:
    messages = held_many(3)
    Message.objects.get(pk=messages[0].pk).release()
    with transaction.atomic():
        waiting(payload="before")
        assert Message.objects.ack(messages) == [messages[0]]
        waiting(payload="after")
    assert Message.objects.done(QUEUE).count() == 2
    assert Message.objects.ready(QUEUE).count() == 3


# P15: message.transaction()


@transactional
def test_the_block_and_the_ack_are_one_commit(other_connection: Any) -> None:
    message = held()
    with message.transaction():
        waiting(payload="the work")
        assert row(message)["status"] == "run"
    assert message.settled
    with other_connection.cursor() as cursor:
        cursor.execute("SELECT status FROM django_dbqueue_message ORDER BY id")
        assert [status for (status,) in cursor.fetchall()] == ["y", "n"]


@transactional
def test_an_exception_in_the_block_rolls_back_the_work_and_the_message_stays_held() -> None:
    message = held()
    before = rows()

    def work() -> None:
        with message.transaction():
            waiting(payload="the work")
            raise Abandoned

    with pytest.raises(Abandoned):
        work()
    assert rows() == before
    assert not message.settled
    message.nack()


@transactional
@pytest.mark.parametrize("lose", LOST_BY, ids=lambda lose: lose.__name__)
def test_a_lost_claim_rolls_back_all_that_the_block_did(lose: Callable[[Message], None]) -> None:
    message = held(key="k")
    lose(message)
    before = rows()

    def work() -> None:
        with message.transaction():
            waiting(payload="the work", queue="elsewhere")
            Message.objects.enqueue_many(range(3), queue="elsewhere")

    with pytest.raises(LeaseLost):
        work()
    assert rows() == before
    assert not message.settled


@transactional
def test_a_claim_lost_in_the_block_rolls_it_back_too() -> None:
    message = held()

    def work() -> None:
        with message.transaction():
            waiting(payload="the work")
            Message.objects.get(pk=message.pk).release()  # another object's word, which this one doesn't know of

    with pytest.raises(LeaseLost):
        work()
    assert row(message)["status"] == "run"
    assert Message.objects.count() == 1


@transactional
def test_the_block_may_stand_inside_the_callers_transaction() -> None:
    message = held()
    with rolled_back(), message.transaction():
        waiting(payload="the work")
    assert (row(message)["status"], message.settled, Message.objects.count()) == ("run", False, 1)
