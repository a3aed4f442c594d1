"""A batch settles what is still held, and returns what was lost (P5)."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.models import Message
from tests.factories import QUEUE, claim_one, held, held_many, row, rows
from tests.lifecycle.losing import VERBS, rescued

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("verb", VERBS)
def test_a_batch_moves_what_is_held_and_returns_what_was_lost(verb: str) -> None:
    messages = held_many(6)
    lost = [messages[1], messages[4]]
    for message in lost:
        Message.objects.get(pk=message.pk).reject("taken away")
    before = [row(message) for message in lost]
    others = [row(message) for message in messages if message not in lost]
    assert VERBS[verb][1](messages) == lost
    assert [row(message) for message in lost] == before
    assert all(
        row(message) != other
        for message, other in zip([message for message in messages if message not in lost], others, strict=True)
    )
    assert [message.lease_lost for message in messages] == [message in lost for message in messages]


@transactional
@pytest.mark.parametrize("verb", VERBS)
def test_a_batch_outside_a_transaction_does_the_same(verb: str) -> None:
    messages = held_many(5)
    Message.objects.get(pk=messages[2].pk).reject("taken away")
    before = row(messages[2])
    assert VERBS[verb][1](messages) == [messages[2]]
    assert row(messages[2]) == before
    assert [message.settled for message in messages] == [
        not verb.startswith("extend") and message != messages[2] for message in messages
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_a_batch_may_mix_messages_of_several_claims(verb: str) -> None:
    mine = held_many(3)
    yours = held_many(3)
    lost_one = mine[0]
    rescued_lease = row(lost_one)["available_at"]
    Message.objects.get(pk=lost_one.pk).release()
    again = claim_one()
    assert again == lost_one
    assert rescued_lease
    before = row(lost_one)
    assert VERBS[verb][1]([*mine, *yours]) == [lost_one]
    assert row(lost_one) == before
    again.ack()


@pytest.mark.parametrize("order", [1, -1])
def test_a_lost_claim_alongside_the_present_one_of_the_same_message_is_the_only_one_lost(order: int) -> None:
    stale = held()
    rescued(stale)
    fresh = claim_one()
    other = held()
    lost = Message.objects.ack([stale, fresh, other][::order])
    assert [message is stale for message in lost] == [True]
    assert (row(fresh)["status"], row(other)["status"]) == ("y", "y")


def test_the_same_claim_twice_in_a_batch_counts_once() -> None:
    message = held()
    assert Message.objects.ack([message, message]) == []
    assert Message.objects.ack([message]) == [message]


def test_a_batch_of_swapped_tokens_moves_nothing() -> None:
    """Each id must be held under its own token, not under anybody's."""
    first, second = held(), held()
    before = rows()
    first.held_token, second.held_token = second.held_token, first.held_token
    assert Message.objects.ack([first, second]) == [first, second]
    assert rows() == before


@pytest.mark.parametrize("mixed", [False, True])
def test_a_batch_of_thousands_is_cut_into_statements(mixed: bool) -> None:
    Message.objects.enqueue_many(range(2000), queue=QUEUE)
    messages = Message.objects.claim(1000, queue=QUEUE)
    if mixed:
        for _ in range(20):
            messages += Message.objects.claim(50, queue=QUEUE)
    else:
        messages += Message.objects.claim(1000, queue=QUEUE)
    lost = messages[::400]
    Message.objects.filter(pk__in=[message.pk for message in lost]).requeue()
    with CaptureQueriesContext(connection) as captured:
        assert Message.objects.ack(messages) == lost
    assert len(captured) < 30
    assert Message.objects.done(QUEUE).count() == 2000 - len(lost)
    assert Message.objects.ready(QUEUE).count() == len(lost)


def test_a_batch_of_a_few_is_one_statement_when_nothing_was_lost() -> None:
    messages = held_many(50)
    with CaptureQueriesContext(connection) as captured:
        assert Message.objects.ack(messages) == []
    assert len([query for query in captured if "SAVEPOINT" not in query["sql"]]) == 1


@pytest.mark.parametrize("verb", VERBS)
def test_an_empty_batch_loses_nothing(verb: str) -> None:
    assert VERBS[verb][1]([]) == []
    assert VERBS[verb][1](iter([])) == []
