"""Two workers that have nothing to do share a queue, as two hosts would: whoever dies, others begin what comes."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.liveness.late_workers import BEAT_RESTING
from django_dbqueue.models import Message, Worker
from tests.process.conftest import WorkerProcess, wait_until
from tests.process.freezing import freeze_group

pytestmark = pytest.mark.django_db(transaction=True)
RESTING = "tests.process.resting_settings"
CHILDREN = 2
ONCE_AN_HOUR = ("--idle-interval", "3600")

Fleet = list[WorkerProcess]


def started(start_worker: Callable[..., WorkerProcess], *arguments: str) -> Fleet:
    options = ("--queues", "test", "--processes", str(CHILDREN), *arguments)
    return [start_worker(*options, DJANGO_SETTINGS_MODULE=RESTING) for _ in range(2)]


def resting(start_worker: Callable[..., WorkerProcess], *arguments: str) -> Fleet:
    all_rest(fleet := started(start_worker, *arguments))
    return fleet


def children(worker: WorkerProcess) -> set[int]:
    """The processes of a worker's children: its main thread starts them."""
    pid = worker.process.pid
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def rest(fleet: Fleet) -> bool:
    living = [child for worker in fleet for child in children(worker)]
    rows = Worker.objects.filter(pid__in=living, beat_every__gte=BEAT_RESTING, held=0)
    return len(living) == len(fleet) * CHILDREN == rows.count()


def all_rest(fleet: Fleet) -> None:
    wait_until(lambda: rest(fleet), lambda: f"children that rest: {list(Worker.objects.values())}")


def _outputs(fleet: Fleet) -> str:
    return "\n".join(worker.output for worker in fleet)


def send(**what: Any) -> Message:
    return Message.objects.enqueue({"do": "ok", **what}, queue="test")


def test_whoever_is_killed_what_comes_to_a_fleet_at_rest_is_begun_once(
    start_worker: Callable[..., WorkerProcess],
) -> None:
    fleet = [first, second] = resting(start_worker)
    sent = [send() for _ in range(3)]  # together
    sent += [_begun_at_rest(fleet) for _ in range(3)]  # after a silence
    for pid in children(first):  # one of them is the asker
        os.kill(pid, signal.SIGKILL)
        sent.append(send())
    sent.append(_begun_at_rest(fleet))
    freeze_group(first.process.pid)
    sent += [_begun_at_rest([second]) for _ in range(2)]
    first.signal_all(signal.SIGKILL)
    sent += [_begun_at_rest([second]) for _ in range(2)]
    third = another_resting(second, start_worker)
    second.signal(signal.SIGKILL)  # its children are orphans
    sent += [send() for _ in range(2)]
    sent.append(_begun_at_rest([third]))
    for message in sent:
        third.wait_for("ok", message.pk)
    assert Counter(note["id"] for note in third.notes("ok")) == dict.fromkeys((each.pk for each in sent), 1)


def _begun_at_rest(fleet: Fleet) -> Message:
    all_rest(fleet)
    message = send()
    fleet[0].wait_for("ok", message.pk)
    return message


def another_resting(other: WorkerProcess, start_worker: Callable[..., WorkerProcess]) -> WorkerProcess:
    """One more worker, which rests as the other does."""
    started = start_worker("--queues", "test", "--processes", str(CHILDREN), DJANGO_SETTINGS_MODULE=RESTING)
    all_rest([other, started])
    return started


def test_what_was_due_at_a_known_time_comes_again_after_the_death_of_its_worker_though_they_ask_once_an_hour(
    start_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    fleet, delay = list[WorkerProcess](), 40
    while not fleet:
        later = Message.objects.enqueue({"do": "until", "file": str(tmp_path / "gate")}, queue="test", delay=delay)
        fleet = started(start_worker, *ONCE_AN_HOUR, "--lease", "20")
        wait_until(
            lambda fleet=fleet, later=later: rest(fleet) or fleet[0].notes("begin", later.pk),
            "them to rest, or to have no time for it",
        )
        if fleet[0].notes("begin", later.pk):  # a slow machine
            for worker in fleet:
                worker.end()
            Message.objects.all().delete()
            fleet, delay = [], 2 * delay
    [begun] = fleet[0].wait_for("begin", later.pk)
    [holder] = [worker for worker in fleet if begun["pid"] in children(worker)]
    holder.signal_all(signal.SIGKILL)
    wait_until(
        lambda: len(fleet[0].notes("begin", later.pk)) == 2,
        lambda: f"it to begin again: {[*Message.objects.values(), *Worker.objects.values()]}\n{_outputs(fleet)}",
    )
    [_, again] = fleet[0].notes("begin", later.pk)
    assert again["pid"] != begun["pid"]
    (tmp_path / "gate").touch()


def test_they_wake_each_other_until_all_children_of_both_have_work(
    start_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    fleet = resting(start_worker)
    for _ in range(2 * 2 * CHILDREN):  # each may hold one that it has fetched ahead
        send(do="until", file=str(tmp_path / "gate"))
    everyone = children(fleet[0]) | children(fleet[1])
    wait_until(
        lambda: {note["pid"] for note in fleet[0].notes("begin")} == everyone,
        lambda: f"{everyone} to begin one: {fleet[0].notes()}",
    )
    (tmp_path / "gate").touch()
