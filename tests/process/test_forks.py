"""What handlers fork: it has nothing of the child's, and doesn't outlive the worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.models import Message, Queue
from tests.process.conftest import wait_until
from tests.servers.lifeline import lives

pytestmark = pytest.mark.django_db(transaction=True)
LONG = 300


@pytest.mark.parametrize("queue", ["test", "transactional"])
@pytest.mark.parametrize("then", ["leave", "exit", "return", "query"])
def test_a_copy_of_a_handler_takes_nothing_with_it_and_settles_nothing(
    drain: Callable[..., Any], queue: str, then: str
) -> None:
    """Inside a transaction the copy is refused its database: it may not go on with half of it."""
    forking = Message.objects.enqueue({"do": "fork", "then": then}, queue=queue)
    Message.objects.enqueue_many([{"do": "ok"}] * 20, queue=queue)
    worker = drain("--queues", queue, "--batch", "50")
    assert Message.objects.done(queue).filter(read_count=1).count() == 21, worker.output
    assert Queue.objects.filter(name=f"effect-{forking.pk}-1").count() == 1
    assert len(worker.notes("ok")) == 20, "the copy ran none of them"
    assert len(worker.notes("forked")) == 1
    assert "trouble" not in worker.output, "no session of the child was ended"
    assert "ended by" not in worker.output
    if then == "query" and queue == "test":
        assert [each["found"] for each in worker.notes("asked")] == [1]


@pytest.mark.parametrize("queue", ["test", "transactional"])
def test_a_process_of_multiprocessing_has_a_session_of_its_own_and_can_be_terminated(
    drain: Callable[..., Any], queue: str
) -> None:
    message = Message.objects.enqueue({"do": "multiprocess", "seconds": LONG, "terminates": True}, queue=queue)
    worker = drain("--queues", queue)
    assert [each["found"] for each in worker.notes("asked")] == [1]
    assert [each["status"] for each in worker.notes("waited")] == [-signal.SIGTERM]
    assert Message.objects.get(pk=message.pk).status == "y"
    assert Queue.objects.filter(name=f"effect-{message.pk}-1").count() == 1
    assert "trouble" not in worker.output


@pytest.mark.parametrize("do", ["fork", "multiprocess"])
def test_what_a_handler_left_running_does_not_outlive_a_worker_that_is_stopped(
    start_worker: Callable[..., Any], do: str
) -> None:
    message = Message.objects.enqueue({"do": do, "seconds": LONG, "then": "leave", "waits": False}, queue="test")
    worker = start_worker("--grace", "1")
    [forked] = worker.wait_for("forked", message.pk)
    wait_until(lambda: Message.objects.get(pk=message.pk).status == "y", "its end")
    assert lives(forked["pid"])
    worker.signal(signal.SIGTERM)
    worker.ended()
    wait_until(lambda: not lives(forked["pid"]), "the end of the forked process")


@pytest.mark.parametrize("do", ["fork", "multiprocess"])
def test_what_a_handler_left_running_does_not_outlive_a_child_that_is_killed(
    start_worker: Callable[..., Any], do: str
) -> None:
    message = Message.objects.enqueue({"do": do, "seconds": LONG, "then": "leave"}, queue="test", max_reads=1)
    worker = start_worker()
    [begun] = worker.wait_for("begin", message.pk)
    [forked] = worker.wait_for("forked", message.pk)
    os.kill(begun["pid"], signal.SIGKILL)
    wait_until(lambda: not lives(forked["pid"]), "the end of the forked process")
    wait_until(lambda: Message.objects.get(pk=message.pk).is_dead, "the message's death")


def test_a_process_that_a_handler_forked_is_waited_for_at_the_end(drain: Callable[..., Any]) -> None:
    message = Message.objects.enqueue({"do": "fork", "seconds": 2, "then": "query", "waits": False}, queue="test")
    worker = drain("--grace", "60")
    assert [each["found"] for each in worker.notes("asked", message.pk)] == [1], worker.output
