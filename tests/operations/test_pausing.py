"""A paused queue: nobody claims from it; who paused it, and why, is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_dbqueue import InvalidMessage
from django_dbqueue.models import Message, Queue
from tests.factories import QUEUE, claimed, held, rows, waiting

pytestmark = pytest.mark.django_db


def test_a_paused_queue_gives_nothing_until_it_is_resumed() -> None:
    waiting(payload="a")
    Queue.objects.pause(QUEUE, by="me", reason="the mail server is down")
    before = rows()
    assert claimed() == []
    assert rows() == before
    queue = Queue.objects.get(pk=QUEUE)
    assert (queue.is_paused, queue.paused_by, queue.pause_reason) == (True, "me", "the mail server is down")
    assert abs(queue.paused_at - datetime.now(UTC)) < timedelta(minutes=5)
    assert Queue.objects.paused_names() == {QUEUE}
    Queue.objects.resume(QUEUE)
    assert Queue.objects.paused_names() == set()
    queue.refresh_from_db()
    assert (queue.is_paused, queue.paused_at, queue.paused_by, queue.pause_reason) == (False, None, "", "")
    assert claimed() == ["a"]


def test_a_pause_holds_for_its_own_queue_only() -> None:
    waiting(queue="other")
    Queue.objects.pause(QUEUE)
    assert len(Message.objects.claim(1, queue="other")) == 1


def test_a_paused_queue_takes_messages_and_lets_what_runs_finish() -> None:
    message = held()
    Queue.objects.pause(QUEUE)
    assert waiting().outcome == "created"
    message.extend(5)
    message.ack()


def test_a_pause_of_a_bad_name_is_refused() -> None:
    with pytest.raises(InvalidMessage):
        Queue.objects.pause("no good")


def test_who_and_why_of_a_pause_are_kept_as_every_database_can() -> None:
    Queue.objects.pause(QUEUE, by="a" * 200, reason="\0\ud800" + "b" * 600)
    queue = Queue.objects.get(pk=QUEUE)
    assert (queue.paused_by, queue.pause_reason) == ("a" * 150, "\\0\\ud800" + "b" * 492)
    Queue.objects.pause(QUEUE, reason=4711)
    queue.refresh_from_db()
    assert (queue.paused_by, queue.pause_reason) == ("", "4711")
