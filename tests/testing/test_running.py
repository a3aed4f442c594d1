"""run_consumers: what a worker would do, in this thread, in a TestCase's transaction and with real commits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings

from django_dbqueue import Reject, Retry, UndecodableMessage, signals
from django_dbqueue.models import Message, Queue
from django_dbqueue.testing import EndlessRun, run_consumers
from tests import factories
from tests.factories import QUEUE, MessageFactory, let_pause_end, row
from tests.testing.conftest import Consumes
from tests.testing.handlers import (
    Trouble,
    fail,
    give_calls,
    give_coroutines,
    give_rows,
    give_rows_asynchronously,
    succeed,
)

pytestmark = pytest.mark.usefixtures("kind")


def test_everything_that_is_due_is_done_in_the_workers_order(consumes: Consumes) -> None:
    heard = []
    consumes(lambda message: heard.append(message.payload))
    for payload, priority in (("second", 0), ("third", 0), ("first", 5)):
        MessageFactory(payload=payload, priority=priority)
    drained = run_consumers(QUEUE)
    assert heard == ["first", "second", "third"]
    assert [message.payload for message in drained.done] == heard
    assert {message.status for message in drained.done} == {"y"}
    assert Message.objects.done(QUEUE).count() == 3
    assert (drained.waiting, drained.dead, drained.errors) == ([], [], [])
    assert run_consumers(QUEUE) == ()


def test_a_delivery_is_claimed_and_charged_by_what_the_consumer_declares(consumes: Consumes) -> None:
    seen: dict[str, Any] = {}

    def check(message: Message) -> None:
        seen.update(row(message))

    consumes(check, lease=7, max_reads=3)
    MessageFactory()
    [handled] = run_consumers(QUEUE)
    assert (seen["status"], seen["read_count"], seen["max_reads"], seen["lease_seconds"]) == ("run", 1, 3, 7)
    assert seen["available_at"] - seen["claimed_at"] == timedelta(seconds=7)
    assert handled.message.claim_token == seen["claim_token"]


def test_what_a_consumer_enqueues_is_run_too_in_its_own_queue_and_in_others(consumes: Consumes) -> None:
    heard = []

    def count_down(message: Message) -> None:
        heard.append(("tests", message.payload))
        if message.payload:
            Message.objects.enqueue(message.payload - 1, queue=QUEUE)
            Message.objects.enqueue(message.payload, queue="echo")

    consumes(count_down)
    consumes(lambda message: heard.append(("echo", message.payload)), queue="echo")
    MessageFactory(payload=2)
    assert len(run_consumers().done) == 5
    assert heard == [("tests", 2), ("echo", 2), ("tests", 1), ("echo", 1), ("tests", 0)]


def test_only_the_queues_that_are_named_are_run(consumes: Consumes) -> None:
    for queue in ("a", "b", "c"):
        consumes(succeed, queue=queue)
        MessageFactory(queue=queue)
    assert [message.queue for message in run_consumers(["a", "c"]).done] == ["a", "c"]
    assert Message.objects.ready("b").count() == 1


def test_a_failure_is_raised_when_its_message_is_settled_and_names_whose_it_is(consumes: Consumes) -> None:
    consumes(fail, max_reads=4)
    message, other = MessageFactory(), MessageFactory()
    with pytest.raises(Trouble, match="as told") as caught:
        run_consumers(QUEUE)
    [note] = caught.value.__notes__
    assert f"queue 'tests' at message {message.pk}, read 1 of 4" in note
    message.refresh_from_db()
    assert (message.status, message.read_count) == ("n", 1)
    assert "Trouble: as told" in (message.error or "")
    assert message.available_at > row(message)["claimed_at"] + timedelta(milliseconds=500)
    assert row(other)["read_count"] == 0


def test_failures_are_collected_if_requested_and_the_others_are_done(consumes: Consumes) -> None:
    def handle(message: Message) -> None:
        if message.payload == "bad":
            raise Trouble("bad")

    consumes(handle)
    for payload in ("good", "bad", "fine"):
        MessageFactory(payload=payload)
    drained = run_consumers(QUEUE, on_error="collect")
    assert [message.payload for message in drained.done] == ["good", "fine"]
    assert [message.payload for message in drained.waiting] == ["bad"]
    assert [str(error) for error in drained.errors] == ["bad"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), pytest.fail.Exception("no")], ids=repr)
def test_what_ends_a_whole_test_is_never_collected(consumes: Consumes, error: BaseException) -> None:
    def handle(_message: Message) -> None:
        raise error

    consumes(handle)
    message = MessageFactory()
    with pytest.raises(type(error)):
        run_consumers(QUEUE, on_error="collect")
    assert row(message)["status"] == "n"


def test_retry_and_reject_are_answers_and_no_failures(consumes: Consumes) -> None:
    def handle(message: Message) -> None:
        raise Retry("later", after=60) if message.payload == "retry" else Reject("unwanted")

    consumes(handle)
    MessageFactory(payload="retry")
    MessageFactory(payload="reject")
    drained = run_consumers(QUEUE)
    assert [message.payload for message in drained.waiting] == ["retry"]
    assert [(message.payload, message.error) for message in drained.dead] == [("reject", "unwanted")]
    assert [type(error) for error in drained.errors] == [Retry, Reject]


def test_a_transactional_consumers_rows_and_ack_are_one(consumes: Consumes) -> None:
    def book(message: Message) -> None:
        Queue.objects.create(name=f"effect-{message.payload}")
        if message.payload == "bad":
            raise Trouble

    consumes(book, transactional=True)
    for payload in ("good", "bad"):
        MessageFactory(payload=payload)
    drained = run_consumers(QUEUE, on_error="collect")
    assert [each.outcome for each in drained] == ["done", "waiting"]
    assert [queue.name for queue in Queue.objects.all()] == ["effect-good"]


def test_an_ordinary_consumers_rows_stay_when_it_fails_as_under_a_worker(consumes: Consumes) -> None:
    def handle(_message: Message) -> None:
        Queue.objects.create(name="effect")
        raise Trouble

    consumes(handle)
    MessageFactory()
    with pytest.raises(Trouble):
        run_consumers(QUEUE)
    assert Queue.objects.filter(name="effect").exists()


def test_a_run_without_end_is_stopped_and_gives_back_what_it_has_claimed_last(consumes: Consumes) -> None:
    consumes(lambda message: Message.objects.enqueue(message.payload + 1, queue=QUEUE))
    MessageFactory(payload=0)
    with pytest.raises(
        EndlessRun, match=r"stopped after 7 deliveries \(7 of queue 'tests'\), and queue 'tests' has more"
    ):
        run_consumers(QUEUE, limit=7)
    [left] = Message.objects.ready(QUEUE)
    assert (left.payload, left.read_count) == (7, 0)


def test_a_run_may_take_as_many_deliveries_as_its_limit_allows(consumes: Consumes) -> None:
    consumes(succeed)
    MessageFactory.create_batch(3)
    assert len(run_consumers(QUEUE, limit=3)) == 3


def test_from_a_paused_queue_nothing_is_run(consumes: Consumes) -> None:
    consumes(succeed)
    MessageFactory()
    MessageFactory(delay=60)
    Queue.objects.pause(QUEUE)
    assert run_consumers(QUEUE, with_delayed=True) == ()
    assert Message.objects.delayed(QUEUE).count() == 1
    Queue.objects.resume(QUEUE)
    assert len(run_consumers(QUEUE, with_delayed=True)) == 2


def test_from_a_queue_whose_pause_has_ended_messages_are_run(consumes: Consumes) -> None:
    consumes(succeed)
    MessageFactory()
    Queue.objects.pause(QUEUE, for_=60)
    assert run_consumers(QUEUE) == ()
    let_pause_end()
    assert len(run_consumers(QUEUE)) == 1


def test_a_consumer_that_pauses_its_queue_is_the_last_of_it(consumes: Consumes) -> None:
    consumes(lambda message: Queue.objects.pause(message.queue))
    MessageFactory.create_batch(2)
    assert len(run_consumers(QUEUE)) == 1


def test_a_message_whose_holder_is_gone_is_rescued_and_run(consumes: Consumes) -> None:
    consumes(succeed)
    factories.stuck()
    [handled] = run_consumers(QUEUE)
    assert (handled.outcome, handled.message.read_count) == ("done", 2)


def test_a_message_that_cannot_be_decoded_is_dead_and_the_test_learns_it(consumes: Consumes) -> None:
    consumes(succeed)
    message = factories.written_by_sql("{")
    with pytest.raises(UndecodableMessage):
        run_consumers(QUEUE)
    message.refresh_from_db()
    assert message.is_dead


def test_where_an_ack_removes_the_row_the_message_is_done_all_the_same(consumes: Consumes) -> None:
    consumes(succeed)
    MessageFactory(payload="gone")
    with override_settings(DBQUEUE={"QUEUES": {QUEUE: {"on_ack": "delete"}}}):
        drained = run_consumers(QUEUE)
    assert [message.payload for message in drained.done] == ["gone"]
    assert not Message.objects.exists()


def test_signals_are_sent_as_by_a_worker(consumes: Consumes) -> None:
    heard = []
    consumes(fail, max_reads=2, backoff=0)
    consumes(succeed, queue="good")
    MessageFactory()
    MessageFactory(queue="good")

    def listen(signal: Any, **_: Any) -> None:
        heard.append(signal)

    wanted = [signals.message_done, signals.message_failed, signals.message_died]
    for signal in wanted:
        signal.connect(listen)
    try:
        run_consumers(on_error="collect")
    finally:
        for signal in wanted:
            signal.disconnect(listen)
    assert sorted(map(wanted.index, heard)) == [0, 1, 2]


def test_the_consumer_that_the_worker_runs_is_found_without_being_imported(kind: str) -> None:
    """tests.consumers_app has it, in a module queue_consumers that nobody here imports."""
    MessageFactory(queue="unawaited", payload={})
    with pytest.raises(TypeError, match="that nobody awaited"):
        run_consumers("unawaited")
    assert connection.in_atomic_block is (kind == "TestCase")


@pytest.mark.parametrize(
    ("handler", "options"),
    [
        *((handler, {}) for handler in (give_rows, give_rows_asynchronously, give_calls, give_coroutines)),
        *((handler, {"transactional": True}) for handler in (give_rows, give_rows_asynchronously, give_calls)),
        *((handler, {"batch": 2}) for handler in (give_rows, give_rows_asynchronously, give_calls)),
        (give_rows, {"batch": 2, "transactional": True}),
    ],
)
def test_a_handler_of_which_nothing_has_run_has_failed_with_a_sentence(
    consumes: Consumes, handler: Any, options: dict[str, Any]
) -> None:
    consumes(handler, max_reads=1, **options)
    MessageFactory.create_batch(2)
    drained = run_consumers(QUEUE, on_error="collect")
    assert len(drained.dead) == 2
    for message in drained.dead:
        assert f"TypeError: tests.testing.handlers.{handler.__name__} returned a" in str(message.error)
        assert "so its work was not done" in str(message.error)
