"""Those of a group that were claimed together: none begins behind one that did not end well after all (P18).

Where its claim was lost, or its ack refused, it runs again, perhaps elsewhere, and they run after it; or it is dead,
and may hold its group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery, Followers
from django_dbqueue.worker.execution import ACK
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.settler import Settler
from tests.factories import QUEUE, as_claimed, held_many, row
from tests.refusing import refusing

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

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


@pytest.mark.parametrize("begun", [0, 1])
def test_none_begins_behind_one_whose_ack_comes_too_late(holding: Holding, begun: int) -> None:
    settler = Settler(session_of("default"), holding, Board(10))
    head, *others = begin_row(holding, 3)
    holding.ended(head, succeeded=True, has_result=False)
    assert [holding.take() for _ in range(begun)] == others[:begun]
    settler.add(head, ACK, 0.0)
    assert Message.objects.filter(pk=head.claim.id).requeue() == 1
    settler.flush()
    assert head.is_lost
    assert holding.cut_off() == others[begun:]
    for each in others[:begun]:
        holding.ended(each, succeeded=True, has_result=False)
    assert holding.waiting == 0


@pytest.mark.parametrize("left", ["dead", "to its lease"])
def test_none_begins_behind_one_whose_ack_the_server_refuses(holding: Holding, left: str) -> None:
    """A dead one may hold its group; one that comes back runs before them."""
    settler = Settler(session_of("default"), holding, Board(10))
    head, *others = begin_row(holding, 3)
    holding.ended(head, succeeded=True, has_result=False)
    settler.add(head, ACK, 0.0)
    with refusing("UPDATE", ("NEW.status = 'y' AND " if left == "dead" else "") + f"OLD.id = {head.claim.id}"):
        settler.flush()
    assert row(Message.objects.get(pk=head.claim.id))["status"] == ("n" if left == "dead" else "run")
    assert holding.waiting == 0
    assert holding.cut_off() == others


def test_a_row_goes_on_behind_one_that_is_kept_as_done_because_it_can_not_be_deleted(
    holding: Holding, settings: SettingsWrapper
) -> None:
    settings.DBQUEUE = {"QUEUES": {QUEUE: {"on_ack": "delete"}}}
    settler = Settler(session_of("default"), holding, Board(10))
    head, second, _third = begin_row(holding, 3)
    holding.ended(head, succeeded=True, has_result=False)
    settler.add(head, ACK, 0.0)
    with refusing("DELETE", f"OLD.id = {head.claim.id}"):
        settler.flush()
    assert row(Message.objects.get(pk=head.claim.id))["status"] == "y"
    assert holding.cut_off() == []
    assert holding.take() is second
