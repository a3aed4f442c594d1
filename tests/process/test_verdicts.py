"""What a handler says becomes of its message, in a real worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.models import Message, Queue, Worker

pytestmark = pytest.mark.django_db(transaction=True)


def send(queue: str = "test", /, **what: Any) -> Message:
    return Message.objects.enqueue(what, queue=queue)


def test_each_verdict_ends_where_it_should(drain: Callable[..., Any]) -> None:
    ok = send(do="ok")
    rejected = send(do="reject")
    failing = send(do="fail", text="as\ntold")
    passing = send(do="fail", times=2)
    retried = send(do="retry", after=0.1)
    leaving = send(do="exit")
    drain("--threads", "2")
    ok, rejected, failing, passing, retried, leaving = (
        Message.objects.get(pk=m.pk) for m in (ok, rejected, failing, passing, retried, leaving)
    )
    assert (ok.status, ok.read_count, ok.error) == ("y", 1, None)
    assert rejected.is_dead
    assert rejected.read_count == 1
    assert rejected.error == "not wanted"
    assert failing.is_dead
    assert failing.read_count == 3
    assert "ValueError: as\ntold" in str(failing.error)
    assert "queue_consumers.py" in str(failing.error)
    assert (passing.status, passing.read_count) == ("y", 3)
    assert (retried.status, retried.read_count) == ("y", 2)
    assert leaving.is_dead
    assert "SystemExit: 3" in str(leaving.error)


@pytest.mark.parametrize("queue", ["test", "transactional"])
@pytest.mark.parametrize(
    ("verb", "how", "line", "counts"),
    [
        ("ack", {}, "", "1 done, 0 failed and retried, 0 dead, 0 released"),
        (
            "reject",
            {"reason": "not wanted"},
            "is dead at attempt 1: not wanted",
            "0 done, 0 failed and retried, 1 dead",
        ),
        (
            "nack",
            {"delay": 0.05, "error": "not yet"},
            "is dead at attempt 3: not yet",
            "0 done, 2 failed and retried, 1 dead",
        ),
    ],
)
def test_what_a_handler_settles_itself_is_counted_and_logged_as_what_it_raises(
    drain: Callable[..., Any], queue: str, verb: str, how: dict[str, Any], line: str, counts: str
) -> None:
    send(queue, do="settle", verb=verb, how=how)
    worker = drain("--queues", queue)
    assert f"worker ended: {counts}" in worker.output
    assert line in worker.output
    assert worker.output.count("failed at attempt") == int(verb == "nack") * 2


def test_a_row_that_cannot_be_decoded_goes_to_the_dead_and_blocks_no_other(drain: Callable[..., Any]) -> None:
    broken = send(do="ok")
    odd = send(do="ok")
    headed = send(do="ok")
    ok = send(do="ok")
    Message.objects.filter(pk=broken.pk).update(body='{"do": ')
    Message.objects.filter(pk=odd.pk).update(content_type="pickle")
    Message.objects.filter(pk=headed.pk).update(headers_text="[1]")
    worker = drain()
    for message in (broken, odd, headed):
        row = Message.objects.get(pk=message.pk)
        assert row.is_dead
        assert "UndecodableMessage" in str(row.error)
    assert Message.objects.get(pk=ok.pk).status == "y"
    assert [n["id"] for n in worker.notes("begin")] == [ok.pk]


def test_an_ack_inside_the_handlers_transaction_is_one_commit_and_not_done_again(
    drain: Callable[..., Any],
) -> None:
    message = send(do="ack in transaction")
    worker = drain()
    assert Message.objects.get(pk=message.pk).status == "y"
    assert Queue.objects.filter(name=f"effect-{message.pk}").exists()
    assert "refused" not in worker.output


def test_an_ack_that_was_rolled_back_counts_as_not_done(drain: Callable[..., Any]) -> None:
    message = send(do="ack and roll back")
    drain()
    row = Message.objects.get(pk=message.pk)
    assert (row.status, row.read_count) == ("y", 1)


def test_exactly_once_survives_failures_after_the_effect(drain: Callable[..., Any]) -> None:
    message = send(do="exactly once", fail_times=2)
    drain()
    row = Message.objects.get(pk=message.pk)
    assert (row.status, row.read_count) == ("y", 3)
    assert Queue.objects.filter(name=f"effect-{message.pk}").count() == 1


@pytest.mark.parametrize(
    "how",
    [
        "autocommit off",
        "open atomic",
        "begun by SQL",
        "begun by BEGIN",
        "begun by the driver",
        "tables locked",
        "closed",
    ],
)
@pytest.mark.parametrize("before", [0, 1], ids=["first", "later"])
def test_a_handler_that_breaks_its_connection_harms_no_other(drain: Callable[..., Any], how: str, before: int) -> None:
    for _ in range(before):
        send(do="effect")
    bad = send(do="break connection", how=how)
    effect = send(do="ack in transaction")
    drain("--batch", "1")
    assert Message.objects.get(pk=bad.pk).status == "y"
    assert Message.objects.get(pk=effect.pk).status == "y"
    assert Queue.objects.filter(name=f"effect-{effect.pk}").exists()
    assert not Queue.objects.filter(name="left-open").exists()


def test_async_consumers_run_and_are_cancelled_at_their_timeout(drain: Callable[..., Any]) -> None:
    quick = Message.objects.enqueue({"seconds": 0.01}, queue="async")
    slow = Message.objects.enqueue({"seconds": 30}, queue="async-timed")
    worker = drain("--threads", "2")
    assert Message.objects.get(pk=quick.pk).status == "y"
    row = Message.objects.get(pk=slow.pk)
    assert row.is_dead
    assert "TimedOut" in str(row.error)
    assert worker.notes("end", slow.pk) == []


def test_a_handler_that_returns_what_is_not_awaited_has_failed_and_is_not_mistaken_for_done(
    drain: Callable[..., Any],
) -> None:
    sent = [send(queue) for queue in ("unawaited", "unawaited-transactional", "unawaited-async")]
    worker = drain()
    for message in sent:
        row = Message.objects.get(pk=message.pk)
        assert row.is_dead
        assert "returned a coroutine that nobody awaited" in str(row.error)
        assert not Queue.objects.filter(name=f"effect-{message.pk}").exists()
    assert worker.notes("ran") == []


def test_a_handler_that_returns_what_is_not_run_has_failed_and_is_not_mistaken_for_done(
    drain: Callable[..., Any],
) -> None:
    sent = {"unrun": "generator", "unrun-async": "list with a generator", "unrun-batch": "async_generator"}
    texts = {send(queue).pk: text for queue, text in sent.items()}
    worker = drain()
    for message, text in texts.items():
        row = Message.objects.get(pk=message)
        assert row.is_dead
        assert f"{text} that nobody ran to its end" in str(row.error)
    assert worker.notes("ran") == []


def test_a_handler_past_its_timeout_is_nacked_and_its_child_replaced(drain: Callable[..., Any]) -> None:
    slow = send("timed", do="sleep", seconds=30)
    ok = send(do="ok")
    worker = drain("--batch", "1")
    row = Message.objects.get(pk=slow.pk)
    assert row.is_dead
    assert row.read_count == 2
    assert row.crashes == 0
    assert "TimedOut" in str(row.error)
    assert Message.objects.get(pk=ok.pk).status == "y"
    assert len({n["pid"] for n in worker.notes("begin")}) > 1


def test_a_handler_that_lets_no_other_thread_run_is_ended_after_its_timeout_all_the_same(
    drain: Callable[..., Any],
) -> None:
    hog = send("timed", do="hog", seconds=300)
    ok = send(do="ok")
    worker = drain("--grace", "0")
    row = Message.objects.get(pk=hog.pk)
    assert (row.is_dead, row.read_count, row.crashes) == (True, 2, 0)
    assert "TimedOut" in str(row.error)
    assert Message.objects.get(pk=ok.pk).status == "y"
    assert "1 done, 1 failed and retried, 1 dead" in worker.output


def test_handlers_keep_their_connection_from_message_to_message(drain: Callable[..., Any]) -> None:
    Message.objects.enqueue_many([{"do": "session"}] * 10, queue="test")
    worker = drain()
    assert len({note["session"] for note in worker.notes("session")}) == 1


def test_a_drain_waits_for_a_short_retry_and_not_for_a_long_one(drain: Callable[..., Any]) -> None:
    """Whichever comes first."""
    long_ones, short_ones = [], []
    for _ in range(2):
        long_ones.append(send(do="retry", after=3_600))
        short_ones.append(send(do="retry", after=0.5))
        long_ones.append(send(do="retry", after=61))
    drain("--threads", "1")
    assert {Message.objects.get(pk=each.pk).status for each in short_ones} == {"y"}
    assert {Message.objects.get(pk=each.pk).status for each in long_ones} == {"n"}


def test_a_drain_finishes_what_its_handlers_enqueue_into_whichever_queue(drain: Callable[..., Any]) -> None:
    for number, (queue, to) in enumerate([("test", "async"), ("test", "short-lease"), ("short-lease", "test")]):
        payload = {"do": "ok", "seconds": 0.01 * number}
        Message.objects.enqueue({"do": "enqueue", "payload": payload, "to": to}, queue=queue)
    drain("--processes", "2")
    assert Message.objects.done().count() == 6


def test_max_messages_bounds_the_deliveries_of_all_processes(drain: Callable[..., Any]) -> None:
    Message.objects.enqueue_many([{"do": "ok"}] * 20, queue="test")
    worker = drain("--max-messages", "7", "--processes", "2")
    assert len(worker.notes("begin")) == 7
    assert Message.objects.done("test").count() == 7
    assert Message.objects.ready("test").filter(read_count=0).count() == 13


def test_what_gives_way_to_a_suspect_is_none_of_the_deliveries_of_max_messages(drain: Callable[..., Any]) -> None:
    messages = [send(do="ok") for _ in range(4)]
    Message.objects.filter(pk=messages[2].pk).update(crashes=1)
    worker = drain("--max-messages", "3", "--threads", "4")
    assert "2 released" in worker.output
    assert len(worker.notes("begin")) == 3
    assert Message.objects.done("test").count() == 3


def test_a_paused_queue_is_left_alone_and_an_unregistered_one_is_named_once(
    start_worker: Callable[..., Any],
) -> None:
    Queue.objects.pause("test", by="me", reason="because")
    paused = send(do="ok")
    unserved = send("nobody", do="ok")
    other = send("short-lease", do="ok")
    worker = start_worker()
    worker.wait_for("end", other.pk)
    worker.wait_for_output("the messages stay there: nobody")
    assert worker.notes("begin", paused.pk) == []
    Queue.objects.resume("test")
    worker.wait_for("end", paused.pk)
    assert worker.output.count("the messages stay there: nobody") == 1
    assert Message.objects.get(pk=unserved.pk).read_count == 0
    assert Worker.objects.count() == 1


def test_the_main_thread_gets_its_turn_within_a_millisecond_while_a_handler_runs(drain: Callable[..., Any]) -> None:
    message = send(do="ok")
    worker = drain()
    [noted] = worker.notes("ok", message.pk)
    assert noted["turn"] <= 0.001
