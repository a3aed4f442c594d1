"""A child that claims a message anew while it still holds an earlier claim of it, which an operator has ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue.models import Message
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def send(**what: Any) -> Message:
    return Message.objects.enqueue(what, queue="test", lease=600)


def requeue(*messages: Message) -> None:
    Message.objects.filter(pk__in=[message.pk for message in messages]).requeue()


def running_again(*messages: Message) -> bool:
    """Whether all of them are claimed again after they were requeued."""
    ids = [message.pk for message in messages]
    return Message.objects.filter(pk__in=ids, status="run").count() == len(ids)


def test_of_two_runs_that_end_together_the_one_with_the_present_claim_counts(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    message = send(do="until", file=str(gate))
    worker = start_worker("--threads", "2")
    worker.wait_for("begin", message.pk)
    requeue(message)
    worker.wait_for("begin", message.pk, times=2)
    gate.touch()
    ends = worker.wait_for("end", message.pk, times=2)
    wait_until(lambda: Message.objects.get(pk=message.pk).status == "y", "the present claim to be acked")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    row = Message.objects.get(pk=message.pk)
    assert (row.status, row.read_count, row.crashes) == ("y", 1, 0)
    assert sorted(note["lost"] for note in ends) == [False, True], "the handler of the lost claim is told, and no other"
    assert worker.output.count(f"claim of message {message.pk}") == 1
    assert len(worker.notes("begin", message.pk)) == 2


def test_a_lost_run_that_ends_first_leaves_the_present_one_alone(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    message = send(do="until", file=str(first))
    worker = start_worker("--threads", "2")
    worker.wait_for("begin", message.pk)
    Message.objects.filter(pk=message.pk).update(body=f'{{"do": "until", "file": "{second}"}}')
    requeue(message)
    worker.wait_for("begin", message.pk, times=2)
    first.touch()
    worker.wait_for("end", message.pk)
    witness = send(do="ok")
    worker.wait_for("end", witness.pk)
    assert Message.objects.get(pk=message.pk).status == "run"
    second.touch()
    wait_until(lambda: Message.objects.get(pk=message.pk).status == "y", "the present claim to be acked")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_a_stop_releases_what_was_claimed_again_before_it_had_begun(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    quick = [send(do="ok") for _ in range(40)]  # so that the child learns to fetch many ahead
    worker = start_worker("--threads", "1", "--batch", "50")
    worker.wait_for("end", quick[-1].pk)
    with transaction.atomic():
        blocking, *fetched = [send(do="until", file=str(gate)), *(send(do="ok") for _ in range(5))]
    worker.wait_for("begin", blocking.pk)
    wait_until(lambda: running_again(*fetched), "the others to be fetched ahead")
    requeue(*fetched)
    wait_until(lambda: running_again(*fetched), "the others to be claimed anew")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: Message.objects.running("test").count() == 1, "what has not begun to be released")
    gate.touch()
    assert worker.ended() == 0, worker.output
    rows = Message.objects.filter(pk__in=[message.pk for message in fetched])
    assert [(row.status, row.read_count) for row in rows] == [("n", 0)] * 5
    assert Message.objects.get(pk=blocking.pk).status == "y"


@pytest.mark.parametrize("threads", [1, 2])
def test_after_a_childs_death_the_present_claim_is_released_at_once(
    start_worker: Callable[..., Any], tmp_path: Path, threads: int
) -> None:
    """One thread: the present claim has not begun while the lost one runs. Two: both have."""
    gate = tmp_path / "gate"
    message = send(do="until", file=str(gate))
    worker = start_worker("--threads", str(threads))
    begun = worker.wait_for("begin", message.pk)
    requeue(message)
    wait_until(lambda: running_again(message), "the message to be claimed anew")
    if threads == 2:
        worker.wait_for("begin", message.pk, times=2)
    os.kill(begun[0]["pid"], signal.SIGKILL)
    gate.touch()
    wait_until(lambda: Message.objects.get(pk=message.pk).status == "y", "the message to be done by the next child")
