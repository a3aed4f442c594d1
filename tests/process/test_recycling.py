"""Children that are recycled after so many messages: nothing is lost, doubled or charged, and nothing stands still."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue.models import Message
from tests.process.conftest import WorkerProcess, wait_until
from tests.servers.lifeline import lives

pytestmark = pytest.mark.django_db(transaction=True)


def send(**what: Any) -> Message:
    return Message.objects.enqueue(what, queue="test")


def send_many(number: int, queue: str = "test", **what: Any) -> None:
    Message.objects.enqueue_many([what] * number, queue=queue)


def ends() -> Counter[tuple[str, int, int]]:
    """What has become of all: status, charged deliveries, crashes."""
    return Counter(Message.objects.values_list("status", "read_count", "crashes"))


def begun_by_child(worker: WorkerProcess) -> dict[int, int]:
    """How many messages each child has begun, the oldest child first."""
    return dict(Counter(note["pid"] for note in worker.notes("begin")))


def is_done(message: Message) -> bool:
    return Message.objects.get(pk=message.pk).status == "y"


def test_each_message_is_begun_once_and_no_child_begins_more_than_it_may(drain: Callable[..., Any]) -> None:
    send_many(300, do="ok")
    worker = drain("--queues", "test", "--processes", "2", "--child-max-messages", "20")
    assert ends() == {("y", 1, 0): 300}
    assert len({note["id"] for note in worker.notes("begin")}) == len(worker.notes("begin")) == 300
    begun = begun_by_child(worker)
    assert max(begun.values()) <= 20
    assert sorted(begun.values())[2:][0] >= 18, "but for the last two, each works until its own limit"


@pytest.mark.parametrize(
    ("queue", "what"),
    [("async", {"seconds": 0.01}), ("batches", {"do": "ok"}), ("transactional", {"do": "ok"})],
)
def test_so_it_is_with_all_kinds_of_consumers(
    start_worker: Callable[..., Any], queue: str, what: dict[str, Any]
) -> None:
    worker = start_worker("--queues", queue, "--threads", "2", "--concurrency", "20", "--child-max-messages", "30")
    for _ in range(2):
        send_many(150, queue, **what)
        wait_until(lambda: set(ends()) == {("y", 1, 0)}, "the end of all messages")
        wait_until(lambda: not lives(worker.notes()[0]["pid"]), "the end of the first child, so that the next retires")
    assert ends() == {("y", 1, 0): 300}
    assert len({note["pid"] for note in worker.notes()}) >= 3
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_among_kills_only_what_ran_in_a_killed_child_is_charged(start_worker: Callable[..., Any]) -> None:
    send_many(400, do="sleep", seconds=0.01)
    worker = start_worker(
        "--drain", "--queues", "test", "--processes", "2", "--threads", "2", "--child-max-messages", "20"
    )
    for times in (60, 120, 180, 240):
        victim = worker.wait_for("begin", times=times)[-1]["pid"]
        with suppress(ProcessLookupError):  # it was recycled
            os.kill(victim, signal.SIGKILL)
    assert worker.ended() == 0, worker.output
    rows = list(Message.objects.values_list("pk", "status", "read_count"))
    assert Counter(status for _, status, _ in rows) == {"y": 400}
    charged = {pk: reads - 1 for pk, _, reads in rows if reads > 1}
    assert sum(charged.values()) <= 4 * 2, "what two threads ran at each of four kills"
    ended = Counter(note["id"] for note in worker.notes("end") if note["id"] not in charged)
    assert len(ended) == 400 - len(charged)
    assert set(ended.values()) == {1}


def test_a_child_that_retires_releases_what_it_can_not_begin_and_its_successor_waits_for_its_thread(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    send_many(40, do="ok")  # so that the child learns to fetch many ahead
    worker = start_worker("--queues", "test", "--child-max-messages", "50")
    worker.wait_for("end", times=40)
    with transaction.atomic():
        slow, *behind = [send(do="until", file=str(gate)), *(send(do="ok") for _ in range(20))]
    worker.wait_for_output("retires by --child-max-messages")
    wait_until(lambda: Message.objects.ready("test").filter(read_count=0).count() == 20, "what was fetched ahead")
    assert Message.objects.get(pk=slow.pk).status == "run"
    gate.touch()
    steps = [(note["step"], note["id"]) for note in worker.wait_for("end", times=61)]
    assert steps.index(("end", slow.pk)) < min(steps.index(("end", each.pk)) for each in behind)
    wait_until(lambda: ends() == {("y", 1, 0): 61}, "all acks")
    assert len(begun_by_child(worker)) == 2
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_a_child_whose_handler_never_ends_has_one_successor_and_is_reported(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with transaction.atomic():
        hung, quick = send(do="until", file=str(gate)), send(do="ok")
    worker = start_worker("--queues", "test", "--threads", "2", "--child-max-messages", "2", "--grace", "1")
    worker.wait_for("end", quick.pk)
    for _ in range(10):
        worker.wait_for("end", send(do="ok").pk)
    retired, successor = begun_by_child(worker)
    worker.wait_for_output(f"its process {retired} still runs 1 message: {hung.pk}.")
    assert Message.objects.get(pk=hung.pk).read_count == 1
    gate.touch()
    wait_until(lambda: is_done(hung), "its end")

    def a_third() -> bool:
        worker.wait_for("end", send(do="ok").pk)
        return len(begun_by_child(worker)) == 3

    wait_until(a_third, "the successor's own successor")
    assert list(begun_by_child(worker))[:2] == [retired, successor]
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert set(ends()) == {("y", 1, 0)}


def test_a_stop_while_one_retires_lets_both_finish_and_releases_the_rest_uncharged(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with transaction.atomic():
        slow, quick = send(do="until", file=str(gate)), send(do="ok")
    worker = start_worker("--queues", "test", "--threads", "2", "--child-max-messages", "2")
    worker.wait_for("end", quick.pk)
    others = [send(do="until", file=str(gate)) for _ in range(2)]
    for each in others:
        worker.wait_for("begin", each.pk)
    waiting = send(do="ok")
    wait_until(lambda: Message.objects.running("test").count() == 4, "one to be fetched ahead")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: Message.objects.running("test").count() == 3, "what has not begun to be released")
    gate.touch()
    assert worker.ended() == 0, worker.output
    assert len(begun_by_child(worker)) == 2
    assert all(is_done(each) for each in (slow, quick, *others))
    assert (Message.objects.get(pk=waiting.pk).status, Message.objects.get(pk=waiting.pk).read_count) == ("n", 0)


def test_a_drain_ends_when_what_a_retired_child_enqueued_is_done(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    late = {"do": "enqueue", "payload": {"do": "ok"}, "to": "test"}
    with transaction.atomic():
        send(do="all of", deeds=[{"do": "until", "file": str(gate)}, late])
        first, second = send(do="ok"), send(do="ok")
    worker = start_worker("--drain", "--queues", "test", "--threads", "2", "--child-max-messages", "2")
    worker.wait_for("end", first.pk)
    worker.wait_for("end", second.pk)
    worker.wait_for("end", send(do="ok").pk)
    gate.touch()
    assert worker.ended() == 0, worker.output
    assert ends() == {("y", 1, 0): 5}
    assert len(begun_by_child(worker)) >= 2


def test_a_bound_for_the_worker_holds_over_its_recycled_children(start_worker: Callable[..., Any]) -> None:
    send_many(60, do="ok")
    worker = start_worker("--queues", "test", "--threads", "2", "--max-messages", "45", "--child-max-messages", "9")
    assert worker.ended() == 0, worker.output
    assert ends() == {("y", 1, 0): 45, ("n", 0, 0): 15}
    assert list(begun_by_child(worker).values()) == [9] * 5
