"""Workers on a queue that removes what is acked: whoever acks, and whatever becomes of the reply."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.models import ArchivedMessage, Message, Queue
from tests.process.conftest import wait_until
from tests.process.test_bad_days import hurt_while_it_works

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def removing(worker_env: dict[str, str]) -> None:
    worker_env["DBQUEUE_TEST_SETTINGS"] = json.dumps({"QUEUES": {"test": {"on_ack": "delete"}}})


def test_every_way_to_ack_ends_with_the_row_removed(drain: Callable[..., Any]) -> None:
    deeds: list[dict[str, Any]] = [
        {"do": "ok"},
        {"do": "fail", "times": 1},
        {"do": "retry", "after": 0},
        {"do": "ack in transaction"},
        {"do": "ack and roll back"},
        {"do": "exactly once"},
        {"do": "exactly once", "fail_times": 1},
    ]
    Message.objects.enqueue_many(deeds * 3, queue="test")
    kept = Message.objects.enqueue({"do": "ok"}, queue="short-lease")
    rejected = Message.objects.enqueue({"do": "reject"}, queue="test")
    worker = drain("--threads", "2")
    left = {message.pk: (message.status, message.is_dead) for message in Message.objects.all()}
    assert left == {kept.pk: ("y", False), rejected.pk: ("n", True)}
    assert Queue.objects.filter(name__startswith="effect-").count() == 9, "each transaction's row, once"
    assert not ArchivedMessage.objects.exists()
    assert "22 done" in worker.output
    assert "lost" not in worker.output


def test_what_had_succeeded_when_its_child_was_killed_is_removed_and_the_poison_is_not(
    drain: Callable[..., Any],
) -> None:
    poison = Message.objects.enqueue({"do": "die"}, queue="test")
    Message.objects.enqueue_many([{"do": "ok"}] * 50, queue="test")
    drain("--threads", "2")
    assert [(message.pk, message.is_dead) for message in Message.objects.all()] == [(poison.pk, True)]


def test_sessions_killed_again_and_again_remove_each_message_once_and_none_is_called_a_loser(
    start_worker: Callable[..., Any], database: str
) -> None:
    worker = hurt_while_it_works(start_worker, database)
    wait_until(lambda: not Message.objects.exists(), "all removed")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    ended = [note["id"] for note in worker.notes("end")]
    assert len(ended) == len(set(ended)) == 300
    assert "300 done" in worker.output
    assert "its claim was lost" not in worker.output
