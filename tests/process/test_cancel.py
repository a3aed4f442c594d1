"""What is cancelled while it runs: dead at once, its handler interrupted, and nothing of it is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from django_dbqueue import Envelope, flow
from django_dbqueue.lifecycle import calls
from django_dbqueue.models import Flow, Message, MessageEvent, Queue
from django_dbqueue.statements.events_sql import CANCELLED
from tests.process.conftest import PATIENCE, WorkerProcess, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

Start = Callable[..., WorkerProcess]
LEASE = 600
"""Seconds: what a worker learns here, it doesn't learn by extending a lease."""
INTERRUPTED = "MessageCancelled"


def send(do: str = "spin", queue: str = "cancelled", **options: Any) -> Message:
    return Message.objects.enqueue({"do": do}, queue=queue, lease=LEASE, **options)


def cancel(message: Message) -> None:
    Message.objects.cancel(message.pk, reason="the wrong file", by="ann")


def assert_cancelled(message: Message) -> None:
    """It is dead, by whom and why, and that is the last that became of it."""
    row = Message.objects.get(pk=message.pk)
    assert (row.is_dead, row.error) == (True, "Cancelled by ann: the wrong file")
    events = list(MessageEvent.objects.filter(message_id=message.pk).order_by("pk").values_list("kind", "actor"))
    assert events[-1] == (CANCELLED, "ann")


@pytest.mark.parametrize("do", ["spin", "pass by"])
def test_a_handler_in_a_thread_is_interrupted_and_its_child_goes_on(start_worker: Start, do: str) -> None:
    message = send(do)
    worker = start_worker("--queues", "cancelled", "--grace", "600")
    [begun] = worker.wait_for("begin", message.pk)
    cancel(message)
    assert_cancelled(message)  # at once
    [raised] = worker.wait_for("raised", message.pk)
    assert (raised["kind"], raised["why"]) == (INTERRUPTED, "Cancelled by ann: the wrong file")
    after = send("return")
    [next_one] = worker.wait_for("begin", after.pk)
    assert next_one["pid"] == begun["pid"]
    assert_cancelled(message)
    worker.wait_for_output("run_until_cancelled runs it (Cancelled by ann: the wrong file)")


def test_a_coroutine_is_cancelled_and_its_child_goes_on(start_worker: Start) -> None:
    message, other = send(queue="cancelled-async"), send(queue="cancelled-async")
    worker = start_worker("--queues", "cancelled-async", "--grace", "600")
    worker.wait_for("begin", times=2)
    cancel(message)
    [raised] = worker.wait_for("raised", message.pk)
    assert raised["kind"] == "CancelledError"
    cancel(other)
    worker.wait_for("raised", other.pk)
    assert len({note["pid"] for note in worker.notes("raised")}) == 1
    assert_cancelled(message)


@pytest.mark.parametrize("do", ["swallow", "hang"])
def test_what_does_not_end_is_named_and_its_child_replaced(start_worker: Start, do: str) -> None:
    message = send(do)
    worker = start_worker("--queues", "cancelled", "--grace", "1")
    [begun] = worker.wait_for("begin", message.pk)
    cancel(message)
    worker.wait_for_output(f"message {message.pk}: tests.consumers_app.cancel_consumers.run_until_cancelled still runs")
    after = send("return")
    [next_one] = worker.wait_for("begin", after.pk)
    assert next_one["pid"] != begun["pid"]
    assert_cancelled(message)
    assert len(worker.notes("begin", message.pk)) == 1
    assert bool(worker.notes("swallowed")) is (do == "swallow")


def test_a_handler_that_can_not_bear_it_learns_at_its_next_call_and_else_its_child_is_replaced(
    start_worker: Start,
) -> None:
    asking, spinning = send("ask", "cancelled-unbearing"), send("spin", "cancelled-unbearing")
    worker = start_worker("--queues", "cancelled-unbearing", "--grace", "2", "--threads", "2")
    worker.wait_for("begin", times=2)
    cancel(asking)
    [raised] = worker.wait_for("raised", asking.pk)
    assert raised["kind"] == "LeaseLost"
    assert "Cancelled by ann: the wrong file" in raised["text"]
    cancel(spinning)
    worker.wait_for_output("its option interruptible is False")
    after = send("return", "cancelled-unbearing")
    worker.wait_for("begin", after.pk)
    assert not worker.notes("raised", spinning.pk)
    assert_cancelled(spinning)


def test_a_step_that_is_remembered_does_not_begin_any_more(start_worker: Start) -> None:
    message = send("step", "cancelled-unbearing")
    worker = start_worker("--queues", "cancelled-unbearing")
    worker.wait_for("begin", message.pk)
    wait_until(lambda: Message.objects.get(pk=message.pk).steps_done, "the first step")
    cancel(message)
    [raised] = worker.wait_for("raised", message.pk)
    assert raised["kind"] == "LeaseLost"


def test_a_handler_that_returns_all_the_same_acks_nothing(start_worker: Start) -> None:
    message = send("return", "cancelled-unbearing")
    worker = start_worker("--queues", "cancelled-unbearing", "--max-messages", "1")
    worker.wait_for("begin", message.pk)
    cancel(message)
    worker.wait_for("end", message.pk)
    assert worker.ended() == 0, worker.output
    assert_cancelled(message)


@pytest.mark.skipif(settings.TEST_DATABASE == "sqlite", reason="its transaction has the file's only write lock")
def test_a_transactional_handler_leaves_nothing(start_worker: Start) -> None:
    message = send("write", "cancelled-transactional")
    worker = start_worker("--queues", "cancelled-transactional", "--max-messages", "1")
    worker.wait_for("written", message.pk)
    cancel(message)
    [raised] = worker.wait_for("raised", message.pk)
    assert raised["kind"] == INTERRUPTED
    assert worker.ended() == 0, worker.output
    assert not Queue.objects.filter(name=f"effect-{message.pk}").exists()
    assert_cancelled(message)


def test_of_a_list_only_the_message_ends_and_the_handler_when_all_of_them_have(
    start_worker: Start, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    first, second = (
        Message.objects.enqueue({"do": "until", "file": str(gate)}, queue="cancelled-list") for _ in range(2)
    )
    worker = start_worker("--queues", "cancelled-list", "--max-messages", "4")
    worker.wait_for("begin", times=2)
    cancel(second)
    worker.wait_for_output(f"message {second.pk} of cancelled-list was cancelled")
    gate.touch()
    worker.wait_for("end", first.pk)
    wait_until(lambda: Message.objects.get(pk=first.pk).status == "y", "the ack of the other")
    assert_cancelled(second)
    both = [send("spin", "cancelled-list") for _ in range(2)]
    for each in both:
        worker.wait_for("begin", each.pk)
    for each in both:
        cancel(each)
    worker.wait_for("raised", times=2)
    assert worker.ended() == 0, worker.output
    for each in both:
        assert_cancelled(each)


@pytest.mark.skipif(settings.TEST_DATABASE == "sqlite", reason="its transaction has the file's only write lock")
def test_a_list_in_a_transaction_is_run_again_without_what_was_cancelled(start_worker: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    queue, payload = "cancelled-list-transactional", {"do": "until", "file": str(gate)}
    first, second = (Message.objects.enqueue(payload, queue=queue, lease=LEASE) for _ in range(2))
    worker = start_worker("--queues", queue, "--max-messages", "2")
    worker.wait_for("begin", times=2)
    cancel(second)
    worker.wait_for_output(f"message {second.pk} of {queue} was cancelled")
    gate.touch()
    assert worker.ended() == 0, worker.output
    assert Message.objects.get(pk=first.pk).status == "y"
    assert [len(worker.notes("begin", each.pk)) for each in (first, second)] == [2, 1]
    assert_cancelled(second)


def test_what_waits_in_its_child_never_begins(start_worker: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    busy = Message.objects.enqueue({"do": "until", "file": str(gate)}, queue="cancelled")
    worker = start_worker("--queues", "cancelled", "--threads", "1", "--max-messages", "3", "--batch", "3")
    worker.wait_for("begin", busy.pk)
    waiting = send()
    wait_until(lambda: Message.objects.get(pk=waiting.pk).status == "run", "its claim")
    cancel(waiting)
    worker.wait_for_output(f"message {waiting.pk} of cancelled was cancelled before it began")
    gate.touch()
    after = send("return", "cancelled")
    worker.wait_for("begin", after.pk)
    assert not worker.notes(message_id=waiting.pk)


def test_a_requeue_at_once_runs_it_again_and_the_first_run_is_interrupted_all_the_same(start_worker: Start) -> None:
    message = send("spin")
    worker = start_worker("--queues", "cancelled", "--threads", "2")
    worker.wait_for("begin", message.pk)
    cancel(message)
    Message.objects.filter(pk=message.pk).requeue()
    worker.wait_for("begin", message.pk, times=2)
    worker.wait_for("raised", message.pk)
    assert Message.objects.get(pk=message.pk).status == "run"


def test_a_canceller_that_dies_before_its_call_has_cancelled_and_the_worker_learns_it_by_the_lease(
    start_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = Message.objects.enqueue({"do": "spin"}, queue="cancelled", lease=3)
    worker = start_worker("--queues", "cancelled", "--grace", "600")
    worker.wait_for("begin", message.pk)

    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(calls, "_call", die)
        with pytest.raises(SystemExit):
            cancel(message)
    assert_cancelled(message)
    [raised] = worker.wait_for("raised", message.pk)
    assert (raised["kind"], raised["why"]) == (INTERRUPTED, "Cancelled by ann: the wrong file")
    assert_cancelled(message)


def test_a_flow_that_is_cancelled_interrupts_what_runs_of_it(start_worker: Start) -> None:
    with flow("import") as f:
        part = f.enqueue(Envelope({"do": "spin"}, lease=LEASE), queue="cancelled")
        f.enqueue(Envelope({"do": "spin"}), queue="cancelled", after=part)
    worker = start_worker("--queues", "cancelled", "--grace", "600")
    worker.wait_for("begin", part.first)
    assert Flow.objects.cancel(f.id, reason="the wrong file", by="ann") == 2
    [raised] = worker.wait_for("raised", part.first)
    assert (raised["kind"], raised["why"]) == (INTERRUPTED, "Dropped by ann: the wrong file")
    assert Message.objects.done("cancelled").count() == 2


def test_a_handler_knows_its_deadline(start_worker: Start) -> None:
    with_one, without = (
        Message.objects.enqueue({"do": "deadline"}, queue=queue) for queue in ("cancelled-timed", "cancelled")
    )
    worker = start_worker("--queues", "cancelled,cancelled-timed", "--max-messages", "2")
    [of_one] = worker.wait_for("deadline", with_one.pk)
    assert 0 < of_one["remaining"] <= 600
    assert abs(of_one["until"] - of_one["remaining"]) < PATIENCE
    [of_none] = worker.wait_for("deadline", without.pk)
    assert (of_none["remaining"], of_none["until"]) == (None, None)
    assert worker.ended() == 0, worker.output
