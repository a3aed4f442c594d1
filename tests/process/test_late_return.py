"""What a handler's return is worth: after its timeout, while its child waits for another; and just before a death."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_dbqueue.models import Message
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_return_after_the_timeout_is_no_ack_and_the_message_comes_again(
    start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    late_gate, other_gate = tmp_path / "late", tmp_path / "other"
    other = Message.objects.enqueue({"do": "until", "file": str(other_gate)}, queue="test")
    worker = start_worker("--threads", "2", "--queues", "test,generously-timed")
    worker.wait_for("begin", other.pk)  # without a timeout: it keeps the child, which has timed out, from its end
    late = Message.objects.enqueue({"do": "until", "file": str(late_gate)}, queue="generously-timed")
    worker.wait_for("begin", late.pk)
    worker.wait_for_output("ran longer than its timeout")
    late_gate.touch()
    worker.wait_for("end", late.pk)
    row = wait_until(lambda: Message.objects.exclude(status="run").filter(pk=late.pk).first(), "it to be settled")
    assert row.status == "n", "whoever acks a late return hides that it ran too long"
    assert (row.read_count, row.crashes) == (1, 0)
    assert "TimedOut" in row.error
    other_gate.touch()
    worker.wait_for("end", other.pk)
    assert len(worker.wait_for("end", late.pk, times=2)) == 2
    wait_until(lambda: Message.objects.filter(status="y").count() == 2, "both to be done")
    assert Message.objects.get(pk=late.pk).read_count == 2


def test_what_had_returned_when_its_child_died_is_done_and_does_not_run_again(drain: Callable[..., Any]) -> None:
    """Handlers are quick: some have returned, and are not acked yet, when the next one kills their process."""
    what = [{"do": "die" if number in (60, 80, 100) else "ok"} for number in range(1, 121)]
    Message.objects.enqueue_many(what, queue="test")
    worker = drain("--threads", "1", "--batch", "40")
    assert (Message.objects.done("test").count(), Message.objects.dead("test").count()) == (117, 3)
    returned = [note["id"] for note in worker.notes("end")]
    assert len(returned) == len(set(returned)) == 117
