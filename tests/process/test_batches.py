"""Consumers that get a list of messages, in real workers."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from django_dbqueue.models import Message, Queue
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

PLAIN, TRANSACTIONAL = "batches", "batches-transactional"


def send(queue: str, number: int = 1, /, **what: Any) -> list[int]:
    before = set(Message.objects.values_list("pk", flat=True))
    Message.objects.enqueue_many([what] * number, queue=queue)
    return sorted(set(Message.objects.values_list("pk", flat=True)) - before)


def counts(*states: tuple[str, int]) -> dict[tuple[str, int], int]:
    """How many messages have each of these pairs of state and reads."""
    return {state: Message.objects.filter(status=state[0], read_count=state[1]).count() for state in states}


def effects() -> set[int]:
    names = Queue.objects.filter(name__startswith="effect-").values_list("name", flat=True)
    return {int(name.removeprefix("effect-")) for name in names}


@pytest.mark.parametrize("queue", [PLAIN, TRANSACTIONAL])
def test_a_handler_gets_full_lists_and_all_of_them_are_acked(queue: str, drain: Callable[..., Any]) -> None:
    ids = send(queue, 220, do="ok")
    worker = drain("--queues", queue)
    calls = [note["ids"] for note in worker.notes("call")]
    assert sorted(id_ for call in calls for id_ in call) == ids
    assert max(map(len, calls)) == 50
    assert len(calls) <= 8  # a claim's end may cut one
    assert counts(("y", 1)) == {("y", 1): 220}
    assert effects() == set(ids)


def test_one_that_fails_in_a_transaction_stands_alone_in_the_end(drain: Callable[..., Any]) -> None:
    good = send(TRANSACTIONAL, 20, do="ok")
    [bad] = send(TRANSACTIONAL, do="fail")
    good += send(TRANSACTIONAL, 19, do="ok")
    worker = drain("--queues", TRANSACTIONAL)
    assert counts(("y", 1), ("n", 3)) == {("y", 1): 39, ("n", 3): 1}
    row = Message.objects.get(pk=bad)
    assert row.is_dead
    assert "as told" in str(row.error)
    assert effects() == set(good)
    assert [bad] in [note["ids"] for note in worker.notes("call")]


def test_without_a_transaction_all_of_them_failed(drain: Callable[..., Any]) -> None:
    send(PLAIN, 5, do="ok"), send(PLAIN, do="fail")
    drain("--queues", PLAIN, "--max-messages", "6")
    assert counts(("n", 1)) == {("n", 1): 6}
    assert Message.objects.filter(error__contains="as told").count() == 6


def test_a_list_that_killed_its_process_comes_back_one_by_one(drain: Callable[..., Any]) -> None:
    ids = send(TRANSACTIONAL, 10, do="ok")
    [poison] = send(TRANSACTIONAL, do="die")
    worker = drain("--queues", TRANSACTIONAL)
    calls = [note["ids"] for note in worker.notes("call")]
    assert sorted(calls[0]) == [*ids, poison]
    assert all(len(call) == 1 for call in calls[1:])
    row = Message.objects.get(pk=poison)
    assert (row.is_dead, row.read_count, row.crashes) == (True, 3, 3)
    assert counts(("y", 2)) == {("y", 2): 10}
    assert effects() == set(ids)


def test_with_one_read_for_each_all_of_a_list_that_killed_its_process_are_dead(drain: Callable[..., Any]) -> None:
    send(TRANSACTIONAL, 3, do="ok"), send(TRANSACTIONAL, do="die")
    Message.objects.update(max_reads=1)
    drain("--queues", TRANSACTIONAL)
    assert Message.objects.dead().filter(error__contains="WorkerDied").count() == 4
    assert effects() == set()


def test_a_list_that_takes_too_long_has_timed_out_and_wrote_nothing(drain: Callable[..., Any]) -> None:
    send("batches-timed", 3, do="ok"), send("batches-timed", do="hang")
    drain("--queues", "batches-timed", "--grace", "0")
    assert Message.objects.dead().filter(error__contains="TimedOut").count() == 4
    assert effects() == set()


@pytest.mark.skipif(settings.TEST_DATABASE == "sqlite", reason="its transaction keeps everybody else from writing")
def test_whoever_lost_the_lease_is_informed_and_the_others_are_done(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    ids = send(TRANSACTIONAL, 7, do="ok")
    [slow] = send(TRANSACTIONAL, do="ok", file=str(gate))
    worker = start_worker("--queues", TRANSACTIONAL)
    worker.wait_for("call")
    lost = ids[2:5]
    Message.objects.filter(pk__in=lost).drop_all("by an operator")
    gate.touch()
    kept = {*ids, slow} - set(lost)
    wait_until(lambda: Message.objects.filter(status="y", error=None).count() == len(kept), lambda: worker.output)
    assert effects() == kept
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    for id_ in lost:
        assert f"message {id_}" in worker.output
    assert Message.objects.filter(read_count=1).count() == len(ids) + 1


def test_a_stop_lets_a_list_finish_and_gives_back_the_rest(start_worker: Callable[..., Any], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    send(PLAIN, 60, do="ok", file=str(gate))
    worker = start_worker("--queues", PLAIN)
    worker.wait_for("call")
    worker.signal(signal.SIGTERM)
    worker.wait_for_output("stopping")
    gate.touch()
    assert worker.ended() == 0, worker.output
    assert counts(("y", 1), ("n", 0)) == {("y", 1): 50, ("n", 0): 10}


def test_a_list_waits_until_it_is_full(start_worker: Callable[..., Any]) -> None:
    queue = "batches-patient"
    ids = send(queue, 4, do="ok")
    worker = start_worker("--queues", f"{queue},test")
    wait_until(lambda: Message.objects.filter(status="run").count() == 4, lambda: worker.output)
    [other] = send("test", do="ok")
    worker.wait_for("end", other)  # another queue's message doesn't wait behind them
    assert worker.notes("call") == [], (worker.notes(), worker.output)
    ids += send(queue, do="ok")
    worker.wait_for("returned")
    assert [note["ids"] for note in worker.notes("call")] == [ids]
    send(queue, 2, do="ok")
    wait_until(lambda: Message.objects.filter(status="run").count() == 2, lambda: worker.output)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert counts(("y", 1), ("n", 0)) == {("y", 1): 6, ("n", 0): 2}


def test_a_list_that_is_not_filled_in_time_goes_as_it_is(start_worker: Callable[..., Any]) -> None:
    ids = send("batches-hasty", 3, do="ok")
    worker = start_worker("--queues", "batches-hasty")
    worker.wait_for("returned")
    assert [note["ids"] for note in worker.notes("call")] == [ids]


def test_nothing_waits_while_a_worker_drains(drain: Callable[..., Any]) -> None:
    send("batches-patient", 3, do="ok")
    worker = drain("--queues", "batches-patient")
    assert [len(note["ids"]) for note in worker.notes("call")] == [3]
