"""One child takes over from another, again and again: what must go on through all of them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.models import ArchivedMessage, Message, Worker
from tests.factories import let_pass
from tests.process.conftest import WorkerProcess, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

FAILED = re.compile(r"can't start child 0, trying again in ([0-9.]+) s")


def send(queue: str = "test", **what: Any) -> Message:
    return Message.objects.enqueue(what, queue=queue)


def is_gone(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True


def delays(worker: WorkerProcess) -> list[float]:
    """For how long the supervisor has waited after each fork that failed."""
    return [float(each) for each in FAILED.findall(worker.output)]


def test_where_each_child_begins_one_message_all_queues_are_served(drain: Callable[..., Any]) -> None:
    for queue in ("test", "second"):
        Message.objects.enqueue_many([{"do": "ok"}] * 20, queue=queue)
    worker = drain("--queues", "test,second", "--child-max-messages", "1")
    queues = dict(Message.objects.values_list("pk", "queue"))
    begun = [queues[note["id"]] for note in worker.notes("begin")]
    assert len(begun) == 40
    assert set(begun[:20]) == {"test", "second"}, "once in 500,000 times they draw it otherwise"


def test_short_lived_children_archive_as_one_that_lives_long_would(start_worker: Callable[..., Any]) -> None:
    old = send(do="ok")
    worker = start_worker(
        "--queues", "test", "--child-max-messages", "1", DJANGO_SETTINGS_MODULE="tests.process.tidying_settings"
    )
    wait_until(lambda: Message.objects.done("test").exists(), "the ack")
    let_pass(old, timedelta(days=365).total_seconds())
    Message.objects.enqueue_many([{"do": "sleep", "seconds": 0.1}] * 2_000, queue="test")
    wait_until(lambda: ArchivedMessage.objects.filter(message_id=old.pk).exists(), "it to be archived")
    assert len({note["pid"] for note in worker.notes("begin")}) > 2
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_a_successor_begins_nothing_while_each_thread_has_a_list_though_none_is_full(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    Message.objects.enqueue_many([{"do": "ok"}] * 48, queue="batches")
    worker = start_worker("--queues", "batches", "--threads", "2", "--child-max-messages", "50")
    wait_until(lambda: Message.objects.done("batches").count() == 48, "the lists before")
    slow = []
    for gate in (first, second):
        slow.append(send("batches", do="ok", file=str(gate)))
        [call] = worker.wait_for("call", slow[-1].pk)
    worker.wait_for_output("retires by --child-max-messages")
    third = send("batches", do="ok")
    successors = Worker.objects.exclude(pid=call["pid"])
    for _ in range(2):
        beat = wait_until(successors.first, "the successor").beat_at
        wait_until(lambda beat=beat: successors.filter(beat_at__gt=beat).exists(), "its next beat")
    assert not worker.notes("call", third.pk)
    second.touch()
    [begun] = worker.wait_for("call", third.pk)
    assert begun["pid"] != call["pid"]
    assert not worker.notes("returned", slow[0].pk)
    first.touch()
    worker.wait_for("returned", slow[0].pk)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert set(Message.objects.values_list("status", "read_count")) == {("y", 1)}


def test_forks_that_fail_delay_no_later_successor_and_none_once_the_retired_has_ended(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    full = tmp_path / "full"
    worker = start_worker(
        "--queues", "test", "--child-max-messages", "1",
        DJANGO_SETTINGS_MODULE="tests.process.unforked_settings", DBQUEUE_TEST_FULL=str(full),
    )  # fmt: skip

    def retire() -> tuple[Path, int]:
        """Have the child retire with a slow message while nobody can be forked, and return its gate and process."""
        gate = tmp_path / f"gate-{len(delays(worker))}"
        full.touch()
        [begun] = worker.wait_for("begin", send(do="until", file=str(gate)).pk)
        return gate, begun["pid"]

    wait_until(Worker.objects.exists, "the first child")
    gate, retired = retire()
    wait_until(lambda: len(delays(worker)) >= 4, "the fourth try")
    assert delays(worker)[3] >= 0.6
    full.unlink()
    wait_until(lambda: Worker.objects.exclude(pid=retired).exists(), "a successor")
    gate.touch()
    wait_until(lambda: is_gone(retired), "the end of the retired")
    before = len(delays(worker))
    gate, _ = retire()
    wait_until(lambda: len(delays(worker)) >= before + 4, "the fourth try")
    assert delays(worker)[before] <= 0.1, "as soon as the first time"
    gate.touch()
    wait_until(lambda: min(delays(worker)[before + 3 :]) <= 0.1, "a try without delay")
    full.unlink()
    worker.wait_for("end", send(do="ok").pk)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
