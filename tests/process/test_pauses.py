"""A worker at a paused queue: when the pause has ended, it continues, and nobody tells it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.models import Message, Queue
from django_dbqueue.models.fields import clock
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_continues_by_itself_when_the_pause_has_ended(start_worker: Callable[..., Any]) -> None:
    Queue.objects.pause("test", for_=3_600)
    held_back = Message.objects.enqueue({"do": "ok"}, queue="test")
    worker = start_worker("--queues", "test,second")
    other = Message.objects.enqueue({"do": "ok"}, queue="second")
    worker.wait_for("end", other.pk)  # it has looked, and works
    assert worker.notes("begin", held_back.pk) == []
    Queue.objects.pause("test", for_=3, by="ann", reason="the bank is down")
    row = Queue.objects.values().get(pk="test")
    worker.wait_for("end", held_back.pk)
    wait_until(lambda: Message.objects.done("test").exists(), lambda: worker.output)
    assert clock("default") >= row["paused_until"]
    assert Message.objects.get(pk=held_back.pk).claimed_at >= row["paused_until"]
    assert Queue.objects.values().get(pk="test") == row | {"is_paused": False}, "nobody had to write"
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
