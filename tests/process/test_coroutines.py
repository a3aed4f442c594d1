"""Async consumers in real workers: one event loop per child runs them, and each message keeps its promises."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.models import Message, Queue
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

QUEUE = "coroutines"
HUNDREDS = 300


def send(queue: str = QUEUE, /, **what: Any) -> Message:
    return Message.objects.enqueue(what, queue=queue)


def row_of(message: Message) -> Message:
    return Message.objects.get(pk=message.pk)


def test_hundreds_run_at_once_in_one_thread_and_sync_ones_with_them(drain: Callable[..., Any]) -> None:
    Message.objects.enqueue_many([{"do": "gather", "count": HUNDREDS}] * HUNDREDS, queue=QUEUE)
    other = send("test", do="ok")
    worker = drain("--concurrency", str(HUNDREDS))
    assert Message.objects.done(QUEUE).filter(read_count=1).count() == HUNDREDS
    assert row_of(other).status == "y"
    begun = [note for note in worker.notes("begin") if note["id"] != other.pk]
    assert len({(note["pid"], note["thread"]) for note in begun}) == 1
    assert len(begun) == HUNDREDS


def test_no_more_run_at_once_than_the_option_allows(start_worker: Callable[..., Any], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    Message.objects.enqueue_many([{"do": "until", "file": str(gate)}] * 7, queue=QUEUE)
    worker = start_worker("--queues", QUEUE, "--concurrency", "3", "--max-messages", "7")
    worker.wait_for("begin", times=3)
    behind = send("test", do="ok")
    other = start_worker("--queues", "test")  # by the time that this one is through, a fourth would have begun
    other.wait_for("end", behind.pk)
    assert len(worker.notes("begin")) == 3 + 1  # the two workers share a log
    gate.touch()
    assert worker.ended() == 0, worker.output
    assert Message.objects.done(QUEUE).count() == 7


@pytest.mark.parametrize(("full", "free"), [(QUEUE, "test"), ("test", QUEUE)])
def test_a_kind_that_is_full_does_not_stop_the_other(
    full: str, free: str, start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    Message.objects.enqueue_many([{"do": "until", "file": str(gate)}] * 5, queue=full)
    worker = start_worker("--concurrency", "1", "--batch", "1")
    worker.wait_for("begin")
    for _ in range(3):
        worker.wait_for("end", send(free, do="ok").pk)
    assert len(worker.notes("begin")) == 1 + 3
    gate.touch()
    wait_until(lambda: Message.objects.done().count() == 8, lambda: worker.output)


@pytest.mark.parametrize(
    ("verb", "status", "dead"),
    [("aack", "y", False), ("anack", "n", False), ("areject", "n", True), ("arelease", "n", False)],
)
def test_a_coroutine_settles_its_own_message(
    verb: str, status: str, dead: bool, start_worker: Callable[..., Any]
) -> None:
    delayed = {"with": {"delay": 600}} if verb == "anack" else {}
    message = send(do="settle", verb=verb, **delayed)
    worker = start_worker("--queues", QUEUE, "--max-messages", "1")
    assert worker.ended() == 0, worker.output
    row = row_of(message)
    assert (row.status, row.is_dead) == (status, dead)
    assert row.read_count == (0 if verb == "arelease" else 1)
    assert len(worker.notes("end")) == 1


def test_a_coroutine_extends_its_own_lease(start_worker: Callable[..., Any], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    message = send(do="extend and wait", seconds=9_000, file=str(gate))
    worker = start_worker("--queues", QUEUE)
    worker.wait_for("extended", message.pk)
    row = row_of(message)
    assert row.available_at is not None
    assert row.claimed_at is not None
    assert (row.available_at - row.claimed_at).total_seconds() > 8_000
    gate.touch()
    wait_until(lambda: row_of(message).status == "y", lambda: worker.output)


def test_what_a_coroutine_raises_settles_its_message(drain: Callable[..., Any]) -> None:
    failing, retried, leaving = send(do="fail"), send(do="retry"), send(do="exit in a task")
    good = send(do="ok")
    worker = drain("--queues", QUEUE)
    assert row_of(failing).is_dead
    assert "ValueError: as told" in str(row_of(failing).error)
    assert (row_of(retried).status, row_of(retried).read_count) == ("y", 2)
    assert row_of(leaving).is_dead
    assert "SystemExit" in str(row_of(leaving).error)
    assert row_of(good).status == "y"
    assert len({note["pid"] for note in worker.notes("begin")}) == 1, "no child was replaced"


def test_a_coroutine_past_its_timeout_is_cancelled_cleans_up_and_its_child_goes_on(drain: Callable[..., Any]) -> None:
    slow, quick = send("coroutines-timed", do="wait"), send(do="ok")
    worker = drain("--queues", f"coroutines-timed,{QUEUE}")
    row = row_of(slow)
    assert row.is_dead
    assert (row.read_count, row.crashes) == (2, 0)
    assert "TimedOut" in str(row.error)
    assert len(worker.notes("cleaned up", slow.pk)) == 2
    assert worker.notes("end", slow.pk) == []
    assert row_of(quick).status == "y"
    assert len({note["pid"] for note in worker.notes("begin")}) == 1


def test_a_coroutine_whose_lease_is_lost_is_cancelled(start_worker: Callable[..., Any]) -> None:
    message = send("coroutines-short-lease", do="wait")
    worker = start_worker("--queues", "coroutines-short-lease", "--max-messages", "1")
    worker.wait_for("begin", message.pk)
    assert Message.objects.filter(pk=message.pk).drop_all("not wanted any more") == 1
    worker.wait_for("cleaned up", message.pk)
    assert worker.ended() == 0, worker.output
    assert row_of(message).error == "not wanted any more"
    assert "0 done, 0 failed and retried, 0 dead" in worker.output


def test_a_stop_cancels_coroutines_at_the_end_of_grace_and_releases_what_has_not_begun(
    start_worker: Callable[..., Any],
) -> None:
    running, last, behind = send(do="wait"), send(do="wait"), send(do="wait")
    Message.objects.filter(pk=last.pk).update(max_reads=1)
    worker = start_worker("--queues", QUEUE, "--concurrency", "2", "--grace", "2")
    worker.wait_for("begin", running.pk)
    worker.wait_for("begin", last.pk)
    wait_until(lambda: row_of(behind).status == "run", "the third to be claimed")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 3, worker.output
    assert len(worker.notes("cleaned up", running.pk)) == 1
    row = row_of(running)
    assert (row.status, row.read_count, row.crashes) == ("n", 1, 0)
    assert str(row.error).startswith("Interrupted")
    assert row_of(last).is_dead
    assert f"message {running.pk} of {QUEUE} was cut off at attempt 1, and runs again: tests." in worker.output
    assert f"message {last.pk} of {QUEUE} is dead at attempt 1: Interrupted: " in worker.output
    assert "0 done, 0 failed and retried, 1 dead, 1 released, 2 cut off" in worker.output
    assert (row_of(behind).status, row_of(behind).read_count) == ("n", 0)
    assert worker.notes("begin", behind.pk) == []


def test_a_coroutine_that_returns_within_grace_is_acked(start_worker: Callable[..., Any], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    message = send(do="until", file=str(gate))
    worker = start_worker("--queues", QUEUE)
    worker.wait_for("begin", message.pk)
    worker.signal(signal.SIGTERM)
    worker.wait_for_output("stopping")
    gate.touch()
    assert worker.ended() == 0, worker.output
    assert row_of(message).status == "y"


def test_a_coroutine_that_swallows_its_cancellation_is_named_and_its_child_replaced(drain: Callable[..., Any]) -> None:
    stubborn = send("coroutines-timed", do="swallow")
    worker = drain("--queues", "coroutines-timed")
    row = row_of(stubborn)
    assert row.is_dead
    assert (row.read_count, row.crashes) == (2, 0)
    assert "TimedOut" in str(row.error)
    assert len(worker.notes("swallowed")) >= 2
    assert len({note["pid"] for note in worker.notes("begin")}) == 2
    [line, _] = [each for each in worker.output.splitlines() if "swallows its cancellation" in each]
    assert "ERROR" in line
    assert f"message {stubborn.pk}: tests.consumers_app.async_consumers.do_as_ordered" in line


def test_the_lease_of_a_coroutine_that_swallows_its_cancellation_is_extended_no_more(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    stubborn = send("coroutines-timed", do="swallow")
    keeping = send(do="until", file=str(tmp_path / "gate"))  # keeps the child alive until the end of its grace
    worker = start_worker("--queues", f"coroutines-timed,{QUEUE}", "--grace", "3600")
    worker.wait_for("begin", keeping.pk)
    worker.wait_for_output("swallows its cancellation")
    other = start_worker("--queues", "coroutines-timed")
    wait_until(lambda: row_of(stubborn).read_count == 2, lambda: worker.output + other.output)
    assert row_of(keeping).status == "run"


def test_what_blocks_the_loop_is_named_and_no_lease_ends_in_between(start_worker: Callable[..., Any]) -> None:
    blocking, running = (send("coroutines-short-lease", do=do, seconds=5) for do in ("block", "ok"))
    worker = start_worker("--queues", "coroutines-short-lease")
    other = start_worker("--queues", "coroutines-short-lease")
    for message in (blocking, running):
        worker.wait_for("end", message.pk)
    wait_until(lambda: Message.objects.done("coroutines-short-lease").count() == 2, lambda: worker.output)
    assert [row_of(message).read_count for message in (blocking, running)] == [1, 1]
    output = worker.output + other.output
    culprit = f"message {blocking.pk}, tests.consumers_app.async_consumers.do_as_ordered"
    named = (
        rf"has been blocked for \d+\.\d s by {re.escape(culprit)}, at \S+/tests/consumers_app/async_consumers\.py:\d+"
    )
    assert re.search(named, output), output
    wait_until(lambda: f"the event loop runs again, after {culprit} blocked it" in worker.output + other.output, output)


def test_what_a_coroutine_sets_in_its_context_another_does_not_see(drain: Callable[..., Any]) -> None:
    messages = [send(do="context") for _ in range(20)]
    worker = drain("--queues", QUEUE)
    assert [note["value"] for note in worker.notes("saw")] == ["nothing"] * 20
    kept = {note["id"]: note["value"] for note in worker.notes("kept")}
    assert kept == {message.pk: f"what message {message.pk} set" for message in messages}


def test_a_poison_coroutine_dies_alone(drain: Callable[..., Any]) -> None:
    before = [send(do="ok") for _ in range(30)]
    poison = send(do="die")
    after = [send(do="ok") for _ in range(30)]
    others = [send("test", do="ok") for _ in range(30)]
    worker = drain()
    row = row_of(poison)
    assert row.is_dead
    assert (row.read_count, row.crashes) == (3, 3)
    assert Message.objects.done().count() == len(before + after + others)
    assert len(worker.notes("begin", poison.pk)) == 3
    last = worker.notes("begin", poison.pk)[-1]
    of_its_process = [note for note in worker.notes() if note["pid"] == last["pid"]]
    steps = [note["step"] for note in of_its_process[: of_its_process.index(last)]]
    assert steps.count("begin") == steps.count("end"), "something ran beside a suspect"


def test_a_payload_that_was_left_in_the_database_is_read_without_blocking_the_loop(drain: Callable[..., Any]) -> None:
    messages = [send(do="ok", padding="x" * 1_000) for _ in range(20)]
    drain("--queues", QUEUE, "--batch-bytes", "0")
    assert Message.objects.done(QUEUE).count() == len(messages)


@pytest.mark.parametrize("place", ["thread", "sensitive"])
def test_a_transaction_that_a_call_leaves_open_fails_its_message_and_no_other(
    place: str, drain: Callable[..., Any]
) -> None:
    bad = send(do="open transaction", **{"in": place})
    good = [send(do="query") for _ in range(30)]
    drain("--queues", QUEUE)
    assert row_of(bad).is_dead
    assert "left a transaction open" in str(row_of(bad).error)
    assert not Queue.objects.filter(name="left-open").exists()
    assert all(Queue.objects.filter(name=f"effect-{message.pk}-1").exists() for message in good)
    assert Message.objects.done(QUEUE).count() == len(good)


def test_a_message_is_settled_only_after_what_its_threads_do_for_it(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    queue = "coroutines-generously-timed"  # what comes again is to end in time
    message, other = send(queue, do="in thread", file=str(gate)), send(queue, do="wait")
    worker = start_worker("--queues", queue)
    worker.wait_for("in thread", message.pk)
    worker.wait_for("cleaned up", other.pk)
    wait_until(lambda: row_of(other).error, "the other one to be nacked")
    assert (row_of(message).status, row_of(message).read_count) == ("run", 1)
    gate.touch()
    worker.wait_for("worked", message.pk, times=2)
    wait_until(lambda: row_of(message).status == "y", lambda: worker.output)
    assert f"message {message.pk} of {queue} failed at attempt 1, retried in" in worker.output
    assert row_of(message).read_count == 2


@pytest.mark.parametrize(("then", "status"), [("return", 0), ("yield", 1), ("wait", 1)])
def test_the_copy_of_a_coroutine_that_forks_ends_and_runs_no_other(
    then: str, status: int, drain: Callable[..., Any]
) -> None:
    message = send(do="fork", then=then, others=20)
    others = [send(do="wait for the fork") for _ in range(20)]
    worker = drain("--queues", QUEUE, "--concurrency", "30")
    assert [note["status"] for note in worker.notes("waited")] == [status]
    assert worker.notes("copy went on") == []
    assert [len(worker.notes("end", each.pk)) for each in others] == [1] * len(others)
    assert Message.objects.done(QUEUE).count() == 1 + len(others)
    assert len(worker.notes("begin")) == 1 + len(others)
    assert row_of(message).read_count == 1
