"""What async consumers share: entered once per child, left when it stops, and entered later if it fails."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.models import Message
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def send_to_both(count: int) -> None:
    for queue in ("sharing", "sharing-too"):
        Message.objects.enqueue_many([{}] * count, queue=queue)


def test_a_resource_is_entered_once_per_child_shared_and_left(start_worker: Callable[..., Any]) -> None:
    send_to_both(20)
    worker = start_worker("--queues", "sharing,sharing-too")
    used = worker.wait_for("used", times=40)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert len({note["thing"] for note in used}) == 1
    assert [note["step"] for note in worker.notes() if note["step"] != "used"] == ["entered", "left"]
    assert Message.objects.done().count() == 40


def test_a_resource_that_can_not_be_entered_costs_no_message_anything_and_is_retried(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    send_to_both(5)
    worker = start_worker("--drain", DBQUEUE_TEST_RESOURCE=str(gate))
    worker.wait_for("refused", times=3)
    other = Message.objects.enqueue({"do": "ok"}, queue="coroutines")
    worker.wait_for("end", other.pk)
    assert Message.objects.filter(queue__startswith="sharing", status="n", read_count=0).count() == 10
    assert "the resource tests.consumers_app.async_consumers.shared could not be entered, retrying in" in worker.output
    assert "claims nothing from sharing, sharing-too: ConnectionError('the other side is away')" in worker.output
    gate.touch()
    assert worker.ended() == 0, worker.output
    assert Message.objects.done().filter(queue__startswith="sharing", read_count=1).count() == 10


def test_a_child_that_takes_the_place_of_another_enters_its_own(start_worker: Callable[..., Any]) -> None:
    worker = start_worker()
    worker.wait_for("entered")
    poison = Message.objects.enqueue({"do": "die"}, queue="coroutines")
    wait_until(lambda: Message.objects.dead().filter(pk=poison.pk), "the message that kills its process to be dead")
    send_to_both(1)
    last = worker.wait_for("used", times=2)[-1]
    entered = [note["pid"] for note in worker.notes("entered")]
    assert len(entered) == len(set(entered)) > 1
    assert last["pid"] == entered[-1]
