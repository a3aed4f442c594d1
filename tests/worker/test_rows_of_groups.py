"""Those of a group that were claimed together: none begins behind one whose claim was found to be lost (P18).

That one runs again, perhaps elsewhere, and they run after it.
"""

from __future__ import annotations

import pytest

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery, Followers
from django_dbqueue.worker.execution import ACK
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.settler import Settler
from tests.factories import QUEUE, as_claimed, held_many

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def holding() -> Holding:
    return Holding(Board(10))


def begin_row(holding: Holding, number: int) -> list[Delivery]:
    """Have a thread take the first of them; the others follow it."""
    consumer = Consumer(QUEUE, print)
    row = [
        Delivery(as_claimed(each), session_of("default"), consumer, consumer.resolved(), frozenset())
        for each in sorted(held_many(number), key=lambda message: message.pk)
    ]
    shared = Followers(row[1:])
    for each in row:
        each.followers = shared
    holding.keep(*row)
    holding.offer(row[0])
    assert holding.take() is row[0]
    return row


def test_a_row_goes_on_while_its_claims_are_held(holding: Holding) -> None:
    head, second, _third = begin_row(holding, 3)
    holding.ended(head, succeeded=True, has_result=False)
    assert holding.cut_off() == []
    assert holding.take() is second


def test_none_begins_behind_one_that_was_lost_while_it_ran(holding: Holding) -> None:
    head, *others = begin_row(holding, 3)
    head.lose("extend")
    holding.ended(head, succeeded=True, has_result=False)
    assert holding.waiting == 0
    assert holding.cut_off() == others


def test_none_begins_behind_one_whose_ack_is_refused(holding: Holding) -> None:
    settler = Settler(session_of("default"), holding, Board(10))
    head, second, third = begin_row(holding, 3)
    holding.ended(head, succeeded=True, has_result=False)
    assert holding.take() is second
    settler.add(head, ACK, 0.0)
    assert Message.objects.filter(pk=head.claim.id).requeue() == 1
    settler.flush()
    assert head.is_lost
    assert holding.cut_off() == [third]
    holding.ended(second, succeeded=True, has_result=False)
    assert holding.waiting == 0
