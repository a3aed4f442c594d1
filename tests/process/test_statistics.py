"""Real workers count what they end: acks, retries and deaths; another goes on counting when one is killed."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue.models import Message
from tests.process.conftest import wait_until
from tests.stats.passing import hours, minutes

if TYPE_CHECKING:
    from collections.abc import Callable

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
