"""Races of an ack that removes its row (``on_ack="delete"``): who comes second has lost, or finds the row gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue import Envelope, LeaseLost
from django_dbqueue.models import Message
from tests.concurrency.steps import meet
from tests.factories import QUEUE, held, row, rows, stuck, waiting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def removing() -> Iterator[None]:
    with override_settings(DBQUEUE={"DEFAULTS": {"on_ack": "delete"}}):
        yield


def rescue() -> int:
    return Message.objects.rescue(QUEUE)


def drop() -> int:
    return int(Message.objects.all().drop_all("by me"))


def update() -> Any:
    return waiting(key="k", payload="new", on_conflict="update").outcome


def requeue() -> int:
    return int(Message.objects.all().requeue())


ACKS: dict[str, Callable[[Message], Any]] = {
    "one": lambda message: message.ack(),
    "a batch": lambda message: Message.objects.ack([message]),
}
every_ack = pytest.mark.parametrize("ack", ACKS.values(), ids=ACKS)


def is_lost(result: Any, message: Message) -> bool:
    return isinstance(result, LeaseLost) or result == [message]


@every_ack
@pytest.mark.parametrize("other", [rescue, drop, update, requeue])
def test_an_ack_alongside_somebody_who_moves_the_row_waits_and_has_lost(
    ack: Callable[[Message], Any], other: Callable[[], Any]
) -> None:
    message = stuck(key="k")
    met = meet(other, lambda: ack(message), waits=True)
    assert met.first in (1, "updated")
    assert is_lost(met.second, message)
    assert row(message)["status"] == ("y" if other is drop else "n")


@every_ack
@pytest.mark.parametrize("other", [rescue, drop, update, requeue])
def test_an_ack_wins_when_the_other_is_rolled_back(ack: Callable[[Message], Any], other: Callable[[], Any]) -> None:
    message = stuck(key="k")
    met = meet(other, lambda: ack(message), then_roll_back=True)
    assert not is_lost(met.second, message)
    assert rows() == []


@every_ack
@pytest.mark.parametrize(("other", "finds"), [(rescue, 0), (drop, 0), (requeue, 0), (update, "created")])
def test_who_comes_during_an_ack_finds_the_row_gone(
    ack: Callable[[Message], Any], other: Callable[[], Any], finds: Any
) -> None:
    message = stuck(key="k")
    met = meet(lambda: ack(message), other)
    assert not is_lost(met.first, message)
    assert met.second == finds
    assert not Message.objects.filter(pk=message.pk).exists()


@every_ack
def test_of_two_acks_of_one_claim_one_wins(ack: Callable[[Message], Any]) -> None:
    message = held()
    copy = Message.objects.get(pk=message.pk)
    met = meet(lambda: ack(message), lambda: ack(copy), waits=True)
    assert not is_lost(met.first, message)
    assert is_lost(met.second, copy)


@every_ack
@pytest.mark.parametrize(("then_roll_back", "finds"), [(False, "created"), (True, "ignored")])
def test_a_producer_of_its_key_waits_and_finds_it_free_once_the_ack_is_committed(
    ack: Callable[[Message], Any], then_roll_back: bool, finds: str
) -> None:
    message = held(key="k")
    met = meet(lambda: ack(message), lambda: waiting(key="k").outcome, then_roll_back=then_roll_back, waits=True)
    assert not is_lost(met.first, message)
    assert met.second == finds
    assert Message.objects.count() == 1


def test_one_of_few_rows_does_not_wait_for_the_others() -> None:
    mine, yours = held(), held()
    Message.objects.enqueue_many([Envelope(number, key=str(number)) for number in range(3)], queue="other")
    met = meet(yours.extend, mine.ack, waits=False)
    assert met.second is None
    assert not Message.objects.filter(pk=mine.pk).exists()
