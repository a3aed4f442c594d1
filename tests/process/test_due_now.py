"""A worker that is at work takes what an operator makes due, long before its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.models import Message
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_that_waits_takes_what_is_made_due_now(start_worker: Callable[..., Any]) -> None:
    Message.objects.enqueue({"do": "ok"}, queue="test", delay=3600)
    Message.objects.enqueue({"do": "ok"}, queue="test")
    worker = start_worker("--queues", "test")
    wait_until(lambda: Message.objects.done("test").count() == 1, "the one that is due")
    assert Message.objects.delayed("test").due_now(by="ann") == 1
    wait_until(lambda: Message.objects.done("test").count() == 2, "the one that was made due")
    assert len(worker.notes("begin")) == 2
