"""Real workers count what they end: acks, retries and deaths; another goes on counting when one is killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.models import Message, Worker
from tests.insight.passing import hours, minutes
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = "test"


def counted(messages: int) -> bool:
    return minutes(QUEUE)["messages"] == messages


def test_a_worker_counts_what_it_has_ended_and_another_goes_on_after_it_was_killed(
    start_worker: Callable[..., Any],
) -> None:
    deeds = [{"do": "ok"}] * 5 + [{"do": "retry", "after": 0}, {"do": "reject"}]
    Message.objects.enqueue_many(deeds, queue=QUEUE)
    worker = start_worker("--queues", QUEUE)
    wait_until(lambda: counted(7), lambda: f"a count of 7; there is {minutes(QUEUE)}; output:\n{worker.output}")
    assert minutes(QUEUE)["dead"] == 1
    assert minutes(QUEUE)["retries"] == minutes(QUEUE)["failures"] - 1 == 1
    worker.signal_all(signal.SIGKILL)
    Message.objects.enqueue_many(deeds[:5], queue=QUEUE)
    start_worker("--queues", QUEUE)
    wait_until(lambda: counted(12), lambda: f"a count of 12; there is {minutes(QUEUE)}")
    assert sum(row.messages for row in hours(QUEUE).values()) == 12


DEEDS: list[dict[str, Any]] = [{"do": "ok"}] * 20 + [{"do": "reject"}]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_that_drains_has_counted_all_that_it_ended_before_it_ends(
    drain: Callable[..., Any], processes: int
) -> None:
    Message.objects.enqueue_many(DEEDS, queue=QUEUE)
    drain("--queues", QUEUE, "--processes", str(processes))
    assert (minutes(QUEUE)["messages"], minutes(QUEUE)["dead"]) == (21, 1)
    assert sum(row.messages for row in hours(QUEUE).values()) == 21
    drain("--queues", QUEUE)  # which ends nothing
    assert minutes(QUEUE)["messages"] == 21


def test_a_worker_that_is_stopped_has_counted_all_that_it_ended_and_so_has_one_of_two(
    start_worker: Callable[..., Any],
) -> None:
    other = start_worker("--queues", "second")
    other.wait_for_output("worker started")
    wait_until(Worker.objects.exists, "the other worker's row")
    stopped = start_worker("--queues", QUEUE)
    Message.objects.enqueue_many(DEEDS, queue=QUEUE)
    wait_until(lambda: not Message.objects.ready(QUEUE).exists() and not running(), "the end of all messages")
    stopped.signal(signal.SIGTERM)
    assert stopped.ended() == 0
    assert counted(21)


def running() -> bool:
    return Message.objects.filter(queue=QUEUE, status="run").exists()
