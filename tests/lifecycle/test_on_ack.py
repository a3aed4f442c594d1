"""``on_ack="delete"``: an ack removes the row, behind the same fence, whoever sends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue import LeaseLost, consumer
from django_dbqueue.models import ArchivedMessage, Message
from tests.factories import QUEUE, claim_one, done, held, held_many, row, rows, stuck, waiting
from tests.lifecycle.conftest import KEPT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("removing")]
transactional = pytest.mark.django_db(transaction=True)


def in_transaction(message: Message) -> None:
    with message.transaction():
        pass


ACKS: dict[str, Callable[[Message], Any]] = {
    "one": lambda message: message.ack(),
    "a batch": lambda message: Message.objects.ack([message]),
    "with the handler's rows": in_transaction,
}
every_ack = pytest.mark.parametrize("ack", ACKS.values(), ids=ACKS)


@every_ack
def test_an_ack_removes_the_row_and_leaves_no_trace(ack: Callable[[Message], Any]) -> None:
    other = row(waiting(queue="other"))
    message = held(key="k")
    assert not ack(message)
    assert rows() == [other]
    assert ArchivedMessage.objects.count() == 0
    assert (message.payload, message.read_count, message.key) == (message.payload, 1, "k"), (
        "the object keeps its values"
    )


@every_ack
def test_the_key_is_free_after_it(ack: Callable[[Message], Any]) -> None:
    ack(held(key="k"))
    assert waiting(key="k").outcome == "created"


@every_ack
def test_a_queue_that_keeps_its_rows_keeps_them(ack: Callable[[Message], Any]) -> None:
    message = held(queue=KEPT)
    assert not ack(message)
    assert (row(message)["status"], message.status) == ("y", "y")


def is_lost(ack: Callable[[Message], Any], message: Message) -> bool:
    try:
        return bool(ack(message) == [message])
    except LeaseLost:
        return True


@every_ack
@pytest.mark.parametrize("how", ["rescued", "taken by another", "updated", "acked", "requeued", "dropped"])
def test_who_lost_the_claim_removes_nothing_and_is_informed(ack: Callable[[Message], Any], how: str) -> None:
    message = stuck(key="k")
    if how == "acked":
        Message.objects.get(pk=message.pk).ack()
    elif how == "updated":
        waiting(key="k", payload="new", on_conflict="update")
    elif how in {"requeued", "dropped"}:
        {"requeued": Message.objects.all().requeue, "dropped": lambda: Message.objects.all().drop_all("me")}[how]()
    else:
        assert Message.objects.rescue() == 1
    if how == "taken by another":
        claim_one()
    before = rows()
    assert is_lost(ack, message)
    assert message.lease_lost
    assert rows() == before


@every_ack
def test_an_ack_that_is_rolled_back_removed_nothing(ack: Callable[[Message], Any]) -> None:
    message = held(key="k")
    before = rows()
    with transaction.atomic():
        ack(message)
        transaction.set_rollback(True)
    assert rows() == before
    assert not message.settled
    message.ack()
    assert rows() == []


@transactional
def test_who_acked_is_settled_with_the_commit() -> None:
    message = held()
    with transaction.atomic():
        message.ack()
        assert not message.settled
    assert message.settled


@transactional
def test_one_batch_of_two_queues_and_of_lost_ones_ends_each_as_its_queue_demands() -> None:
    removed, kept = held_many(5), held_many(5, queue=KEPT)
    lost = [removed[1], kept[3]]
    for message in lost:
        Message.objects.get(pk=message.pk).reject("taken away")
    mixed = [message for pair in zip(removed, kept, strict=True) for message in pair]
    stale = Message.objects.get(pk=removed[0].pk)
    stale.held_token = 7
    assert Message.objects.ack([*mixed, mixed[0], stale]) == [removed[1], kept[3], stale]
    left = {each["id"]: each["status"] for each in rows()}
    assert left == {message.pk: "n" for message in lost} | {m.pk: "y" for m in kept if m not in lost}
    assert all(message.settled for message in mixed if message not in lost)


@transactional
def test_a_large_batch_of_many_tokens_is_removed_to_the_last_row() -> None:
    messages = [message for _ in range(10) for message in held_many(100)]
    innocent = held(queue="other")
    assert len({message.claim_token for message in messages}) == 10
    assert Message.objects.ack(messages) == []
    assert [each["id"] for each in rows()] == [innocent.pk]


def test_tokens_are_compared_to_the_last_bit() -> None:
    message = held()
    for token in (2**63 - 1, 2**63 - 2, 1):
        Message.objects.filter(pk=message.pk).update(claim_token=token)
        for other in {2**63 - 1, 2**63 - 2, 2**63 - 3, 1, 0, 2} - {token}:
            message.held_token = other
            assert is_lost(ACKS["one"], message)
            assert Message.objects.ack([message]) == [message]
    message.held_token = 1
    message.ack()
    assert rows() == []


def test_only_an_ack_removes() -> None:
    for verb in ("nack", "release", "reject", "extend"):
        message = held(queue=verb)
        getattr(message, verb)()
        assert Message.objects.filter(pk=message.pk).exists()
    Message.objects.ready().drop_all("by me")
    assert Message.objects.done().count() == 2, "an operator's drop leaves its reason"


def test_a_consumer_cannot_set_it_since_programs_without_consumers_ack_too() -> None:
    with pytest.raises(TypeError, match="on_ack"):
        consumer(QUEUE, on_ack="delete")  # type: ignore[call-arg]


def test_nothing_is_left_for_the_archive_but_what_an_operator_ended() -> None:
    done()
    waiting()
    Message.objects.ready().drop_all("by me")
    assert Message.objects.archive(older_than=0) == 1
    assert ArchivedMessage.objects.get().outcome == "dropped"
