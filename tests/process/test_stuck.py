"""Listeners learn of a handler that runs on when it should have ended, while it does, from a real worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from django_dbqueue.models import Message
from tests.process.conftest import WorkerProcess, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

Start = Callable[..., WorkerProcess]


def send(queue: str, gate: Path) -> Message:
    return Message.objects.enqueue({"file": str(gate)}, queue=queue)


def test_of_one_that_has_passed_its_timeout_in_a_thread(start_worker: Start, tmp_path: Path) -> None:
    message = send("stuck", tmp_path / "never")
    worker = start_worker("--queues", "stuck")
    [report] = worker.wait_for("stuck", message.pk)
    assert (report["queue"], report["after"]) == ("stuck", "its timeout")
    assert report["handler"].endswith("do_not_end")
    assert report["seconds"] >= 0.5
    assert "in do_not_end" in report["stack"]
    assert "in until" in report["stack"]
    assert report["pid"] == worker.notes("begin", message.pk)[0]["pid"], "it tells where it happens, in its child"
    wait_until(lambda: Message.objects.get(pk=message.pk).is_dead, "the end of its last delivery")
    assert len(worker.notes("stuck", message.pk)) == 1


def test_of_one_that_was_cancelled_and_does_not_end(start_worker: Start, tmp_path: Path) -> None:
    message = send("stuck-untimed", tmp_path / "never")
    worker = start_worker("--queues", "stuck-untimed", "--grace", "1")
    worker.wait_for("begin", message.pk)
    Message.objects.cancel(message.pk, reason="it hangs")
    [report] = worker.wait_for("stuck", message.pk)
    assert report["after"] == "its cancellation"
    assert "in until" in report["stack"]


def test_of_a_coroutine_that_swallows_its_cancellation(start_worker: Start, tmp_path: Path) -> None:
    message = send("stuck-async", tmp_path / "never")
    worker = start_worker("--queues", "stuck-async")
    [report] = worker.wait_for("stuck", message.pk)
    assert report["after"] == "its timeout"
    assert "in do_not_end_either" in report["stack"]
    assert "in sleep" in report["stack"]


def test_a_listener_that_does_not_end_does_not_keep_the_child(start_worker: Start, tmp_path: Path) -> None:
    message = send("stuck-unheard", tmp_path / "never")
    worker = start_worker("--queues", "stuck-unheard")
    worker.wait_for("stuck", message.pk)
    wait_until(lambda: Message.objects.get(pk=message.pk).is_dead, "the end of its child")
