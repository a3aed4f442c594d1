"""Article 000: its session of four steps and its archival table in our words; and its page in the docs, as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue.models import ArchivedMessage, Message
from tests.systems.told import assert_page_prints_what_it_shows

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "systems" / "000-claim-token-and-broker.md"


class Broker:
    """The article's words, each by the word of ours that stands for it."""

    def message_queue(self, message: Any) -> Message:
        return Message.objects.enqueue(message, queue="test")

    def message_dequeue(self, wanted: int = 1) -> list[Message]:
        return Message.objects.claim(wanted, queue="test")

    def message_count(self) -> int:
        return Message.objects.ready("test").count()

    def message_accept(self, message: Message) -> None:
        message.ack()

    def message_reject(self, message: Message) -> None:
        message.release()


def replay_the_story() -> list[Message]:
    """Return what was queued; each step is one of the article's, under its own heading."""
    broker = Broker()
    first, second, third, fourth = queued = [broker.message_queue({"time": time}) for time in range(1, 5)]

    # Get one message, 4 -> 3
    assert broker.message_count() == 4
    messages = broker.message_dequeue()
    assert [(message.pk, message.payload) for message in messages] == [(first.pk, {"time": 1})]
    for message in messages:
        broker.message_accept(message)

    # Get two messages, but reject them, 3 -> 3
    assert broker.message_count() == 3
    rejected = broker.message_dequeue(2)
    assert [message.pk for message in rejected] == [second.pk, third.pk]
    assert broker.message_count() == 1, "what is taken isn't available"
    for message in rejected:
        broker.message_reject(message)

    # Get two messages, 3 -> 1
    assert broker.message_count() == 3
    messages = broker.message_dequeue(2)
    assert [message.pk for message in messages] == [second.pk, third.pk], "what was rejected comes again first"
    assert [message.read_count for message in messages] == [1, 1], "and was not counted"
    assert messages[0].claim_token not in {message.claim_token for message in rejected}, "under another token"
    for message in messages:
        broker.message_accept(message)

    # Try to get two messages when 1 available, 1 -> 0
    assert broker.message_count() == 1
    messages = broker.message_dequeue(2)
    assert [message.pk for message in messages] == [fourth.pk]
    for message in messages:
        broker.message_accept(message)
    assert broker.message_count() == 0
    assert broker.message_dequeue(2) == []
    return queued


def test_the_session_of_four_steps_and_then_the_archival_table() -> None:
    queued = replay_the_story()
    assert [message.status for message in Message.objects.all()] == ["y"] * 4
    assert Message.objects.archive() == 0, "not before its retention is over"
    assert Message.objects.archive(older_than=0) == 4
    assert not Message.objects.exists()
    archived = list(ArchivedMessage.objects.order_by("id"))
    assert [(old.message_id, old.payload, old.outcome) for old in archived] == [
        (message.pk, message.payload, "done") for message in queued
    ]
    assert [old.read_count for old in archived] == [1] * 4


@override_settings(DBQUEUE={"QUEUES": {"test": {"on_ack": "delete"}}})
def test_the_session_without_a_history_where_accepting_deletes_the_row() -> None:
    replay_the_story()
    assert not Message.objects.exists()
    assert Message.objects.archive(older_than=0) == 0
    assert not ArchivedMessage.objects.exists()


def test_the_page_prints_what_it_shows() -> None:
    assert_page_prints_what_it_shows(PAGE)
