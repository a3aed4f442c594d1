"""What becomes of each of a list of deliveries, and when a thread gets how many."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.exceptions import InvalidStep, LeaseLost, MessageCancelled
from django_dbqueue.models import Message, Queue
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.batches import attempt_batch, execute_batch
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.thread_connections import discard_all
from tests.factories import QUEUE, as_claimed, held_many, rows
from tests.patience import patience
from tests.worker.clock import Clock, Turns

pytestmark = pytest.mark.django_db(transaction=True)


def deliveries(number: int, handler: Any = print, *, queue: str = QUEUE, **options: Any) -> list[Delivery]:
    consumer = Consumer(queue, handler, **options)
    return [
        Delivery(as_claimed(each), session_of("default"), consumer, consumer.resolved(), frozenset())
        for each in held_many(number, queue=queue)
    ]


def offered(*given: list[Delivery], waits: bool = True) -> Holding:
    holding = Holding(Board(100), waits=waits)
    for each in given:
        holding.keep(*each)
        holding.offer(*each)
    return holding


@pytest.mark.parametrize(("number", "verb"), [(3, "nack"), (1, "reject")])
def test_a_step_in_a_list_costs_its_neighbours_an_attempt_and_not_their_lives(number: int, verb: str) -> None:
    def handle(messages: list[Message]) -> None:
        messages[-1].sleep("nap", 1)

    ended = attempt_batch(deliveries(number, handle, batch=10))
    assert {type(each.error) for each in ended} == {InvalidStep}
    assert [each.verdict.verb for each in ended] == [verb] * number


def test_what_was_lost_is_reported_and_the_rest_is_run_again_in_one_commit() -> None:
    calls: list[int] = []

    def handle(messages: list[Message]) -> None:
        calls.append(len(messages))
        Queue.objects.bulk_create(Queue(name=f"effect-{message.pk}") for message in messages)

    given = deliveries(6, handle, batch=10, transactional=True)
    lost = given[1], given[4]
    Message.objects.filter(pk__in=[each.claim.id for each in lost]).update(claim_token=1)
    ended = attempt_batch(given)
    assert calls == [6, 4]
    assert {each.delivery for each in ended if isinstance(each.error, LeaseLost)} == set(lost)
    assert all(each.is_lost for each in lost)
    assert {each.verdict.verb for each in ended if each.delivery not in lost} == {"acked"}
    assert [each["status"] for each in rows()] == ["y", "run", "y", "y", "run", "y"]
    assert Queue.objects.count() == 4


def test_once_the_time_has_ended_no_half_is_tried() -> None:
    calls: list[int] = []

    def handle(messages: list[Message]) -> None:
        calls.append(len(messages))
        given[0].timed_out = True
        raise ValueError("as told")

    given = deliveries(4, handle, batch=10, transactional=True)
    assert [each.verdict.verb for each in attempt_batch(given)] == ["nack"] * 4
    assert calls == [4]


def test_a_half_is_interrupted_when_each_of_it_is_cancelled_and_no_other() -> None:
    """The first half is acked before, and the last message runs after; the handler finds here that it is cancelled."""
    calls: list[list[int]] = []
    interrupted: list[int] = []

    def handle(messages: list[Message]) -> None:
        calls.append([ids.index(message.pk) for message in messages])
        if calls[-1] in ([0, 1, 2, 3], [2, 3]):
            raise ValueError("as told")
        if calls[-1] == [2]:
            given[2].cancelled_at = 1.0
            try:
                if given[2].call.cancelled_at is not None:
                    given[2].call.interrupt()
            except MessageCancelled:
                interrupted.append(2)
                raise

    given = deliveries(4, handle, batch=10, transactional=True)
    ids = [each.claim.id for each in given]
    ended: dict[Delivery, str] = {}

    def serve() -> None:
        ended.update((each.delivery, each.verdict.verb) for each in execute_batch(given))
        discard_all()

    thread = threading.Thread(target=serve)  # an interruption closes its thread's connections
    thread.start()
    thread.join(patience(30))
    assert calls == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [3]]
    assert interrupted == [2]
    assert [ended[each] for each in given] == ["acked", "acked", "nothing", "acked"]
    assert [each["status"] for each in rows()] == ["y", "y", "run", "y"]


def test_a_thread_gets_at_most_what_its_handler_takes_of_one_queue() -> None:
    of_one, of_another = deliveries(5, batch=3), deliveries(2, queue="another", batch=3)
    holding = offered(of_one[:1], of_another, of_one[1:], waits=False)
    first = holding.take()
    assert first is of_one[0]
    assert holding.fill_batch(first) == of_one[:3]
    assert [each.batch_size for each in of_one] == [3, 3, 3, 1, 1]
    assert all(each.slot is not None for each in of_one[:3])
    assert holding.waiting == 4


@pytest.mark.parametrize("number", [4, 5])
def test_a_list_that_may_wait_is_counted_as_work_when_it_is_full(number: int) -> None:
    holding = offered(deliveries(number, batch=5, batch_wait=60.0), deliveries(2, queue="another"))
    assert holding.waiting == (2 if number == 4 else 7)
    first = holding.take()
    assert first is not None
    assert first.consumer.queue == ("another" if number == 4 else QUEUE)


def test_a_list_that_may_wait_goes_when_nothing_more_comes() -> None:
    holding = offered(given := deliveries(2, batch=5, batch_wait=60.0))
    delivered: list[Delivery | None] = []
    thread = threading.Thread(target=lambda: delivered.append(holding.take()))
    thread.start()
    holding.close()
    thread.join(patience(30))
    assert delivered == given[:1]


def test_without_patience_a_list_goes_as_it_is() -> None:
    holding = offered(given := deliveries(2, batch=5, batch_wait=60.0), waits=False)
    assert holding.take() is given[0]
    assert holding.fill_batch(given[0]) == given


def test_single_messages_are_prefetched_no_further_while_a_handler_takes_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns(Clock(monkeypatch), Consumer("listed", print, batch=50), batch=10)
    turns.feeder.learn(8.0, "single")  # so slow that one for each thread is enough
    Message.objects.enqueue_many(range(100), queue=QUEUE)
    Message.objects.enqueue_many(range(300), queue="listed")
    turns.go_on(5.0)
    loads = turns.holding.loads()
    assert (loads["single"].held, loads["batch"].held) == (1, 50)
