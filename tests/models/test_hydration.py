"""What a claim and an enqueue make is what Django itself would have made."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.db.models.signals import post_init
from django.test.utils import CaptureQueriesContext

from django_dbqueue.models import Message
from tests.factories import claim_one, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def unread() -> Iterator[list[set[str]]]:
    """Of each message that is made, the columns that a listener to its making would have to read anew."""
    heard: list[set[str]] = []

    def hear(*, instance: Any, **_: Any) -> None:
        heard.append(instance.get_deferred_fields())

    post_init.connect(hear, sender=Message)
    yield heard
    post_init.disconnect(hear, sender=Message)


def test_who_listens_to_its_making_sees_a_claimed_message_whole(unread: list[set[str]]) -> None:
    waiting()
    unread.clear()
    claim_one()
    assert unread == [set()]


def test_who_listens_to_its_making_sees_what_the_claim_wrote() -> None:
    seen: list[tuple[Any, ...]] = []
    written = ("status", "claim_token", "read_count", "max_reads", "lease_seconds", "claimed_at", "available_at")

    def hear(*, instance: Any, **_: Any) -> None:
        seen.append(tuple(getattr(instance, name) for name in written))

    message = waiting()
    post_init.connect(hear, sender=Message)
    try:
        claim_one()
    finally:
        post_init.disconnect(hear, sender=Message)
    assert seen == [Message.objects.values_list(*written).get(pk=message.pk)]


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="no other database takes any text for a moment")
@pytest.mark.parametrize(
    ("text", "moment"), [("2026-01-31T12:00", datetime(2026, 1, 31, 12, tzinfo=UTC)), ("yesterday", None)]
)
def test_a_moment_that_somebody_wrote_otherwise_keeps_no_message_from_being_claimed(
    text: str, moment: datetime | None
) -> None:
    message = waiting()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_dbqueue_message SET due_at = %s", [text])
    claimed = claim_one()
    assert (claimed, claimed.due_at) == (message, moment)
    claimed.ack()


def test_who_listens_to_its_making_sees_of_an_enqueued_message_all_but_what_the_database_knows(
    unread: list[set[str]],
) -> None:
    waiting()
    assert unread == [{"available_at", "due_at", "created_at"}]


def test_it_can_be_copied_and_pickled() -> None:
    waiting(payload={"a": [1]}, headers={"h": "x"})
    message = claim_one()
    message.decode_now()
    for other in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert (other, other.claim, other.payload) == (message, message.claim, {"a": [1]})
        assert (other._state.db, other._state.adding) == ("default", False)
    message.ack()
    message.refresh_from_db()
    assert (message.status, message.payload) == ("y", {"a": [1]})


@pytest.mark.parametrize("micros", [0, 324_000, 324_001])
def test_its_moments_are_those_of_the_row_whenever_they_are_read(micros: int) -> None:
    due = datetime(2026, 1, 31, 12, 0, 1, micros, tzinfo=UTC)
    message = waiting()
    Message.objects.filter(pk=message.pk).update(due_at=due, available_at=due, created_at=due)
    claimed = claim_one()
    with CaptureQueriesContext(connection) as read:
        assert (claimed.due_at, claimed.created_at, claimed.get_deferred_fields()) == (due, due, set())
    assert not read.captured_queries
    row = Message.objects.get(pk=message.pk)
    assert (claimed.claimed_at, claimed.available_at) == (row.claimed_at, row.available_at)


def test_what_moved_in_between_is_read_again() -> None:
    message = waiting()
    claimed, other = (claim_one(), datetime(2026, 1, 31, 12, tzinfo=UTC))
    copied = copy.copy(claimed)
    Message.objects.filter(pk=message.pk).update(due_at=other)
    claimed.refresh_from_db()
    assert claimed.due_at == other
    claimed.nack(delay=60)
    assert claimed.due_at == Message.objects.get(pk=message.pk).due_at > other
    assert copied.due_at < claimed.due_at
