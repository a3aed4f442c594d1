"""run_consumers with what is due later: retries, delays, and how far it goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_dbqueue import Retry
from django_dbqueue.models import Message
from django_dbqueue.testing import run_consumers
from tests.factories import QUEUE, MessageFactory
from tests.testing.conftest import Consumes
from tests.testing.handlers import fail, succeed

pytestmark = pytest.mark.usefixtures("kind")


def test_a_retry_that_is_due_later_stays_and_one_that_is_due_now_is_run(consumes: Consumes) -> None:
    def handle(message: Message) -> None:
        if message.read_count == 1:
            raise Retry(after=message.payload)

    consumes(handle)
    MessageFactory(payload=3600)
    MessageFactory(payload=0)
    drained = run_consumers(QUEUE)
    assert [(each.message.payload, each.outcome) for each in drained] == [
        (3600, "waiting"),
        (0, "waiting"),
        (0, "done"),
    ]


def test_with_delayed_a_message_that_always_fails_is_dead_in_the_end(consumes: Consumes) -> None:
    consumes(fail, max_reads=3, backoff=1000)
    MessageFactory(delay=86_400)
    assert run_consumers(QUEUE) == ()
    drained = run_consumers(QUEUE, with_delayed=True, on_error="collect")
    assert [each.outcome for each in drained] == ["waiting", "waiting", "dead"]
    assert [each.message.read_count for each in drained] == [1, 2, 3]


def test_later_messages_are_run_in_the_order_of_time_across_queues(consumes: Consumes) -> None:
    heard = []
    for queue in ("a", "b"):
        consumes(lambda message: heard.append(message.payload), queue=queue)
    for delay in (30, 10):
        MessageFactory(payload=delay, delay=delay, queue="a")
    MessageFactory(payload=20, delay=20, queue="b", priority=100)
    run_consumers(with_delayed=True)
    assert heard == [10, 20, 30]


@pytest.mark.parametrize("times", range(5))
def test_what_falls_due_while_the_run_ends_is_run(consumes: Consumes, times: int) -> None:
    consumes(succeed)
    for milliseconds in range(12):
        MessageFactory(delay=milliseconds / 1000)
        assert [each.outcome for each in run_consumers(QUEUE, with_delayed=True)] == ["done"]


@pytest.mark.parametrize("as_moment", [False, True], ids=["from now", "at a moment"])
def test_until_runs_what_is_due_until_then_and_nothing_later(consumes: Consumes, as_moment: bool) -> None:
    consumes(succeed)
    for hours in (1, 3):
        MessageFactory(payload=hours, delay=timedelta(hours=hours))
    hours = timedelta(hours=2)
    drained = run_consumers(QUEUE, until=datetime.now(UTC) + hours if as_moment else hours)
    assert [message.payload for message in drained.done] == [1]
    [later] = Message.objects.delayed(QUEUE)
    assert later.payload == 3
    assert later.available_at == later.due_at


def test_a_message_that_was_brought_forward_still_has_when_it_was_due(consumes: Consumes) -> None:
    due = datetime(2060, 1, 2, 3, 4, 5, tzinfo=UTC)
    seen = []
    consumes(lambda message: seen.append(message.due_at))
    MessageFactory(at=due)
    run_consumers(QUEUE, with_delayed=True)
    assert seen == [due]
