"""``result.cancel()``: a task that waits or runs is FAILED, with who and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_dbqueue import NotCancelled
from django_dbqueue.models import Message
from django_dbqueue.testing import run_consumers
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_one_that_waits_is_failed_and_never_runs(jobs: Any) -> None:
    result = jobs.add.enqueue(1, 2)
    result.cancel("the wrong numbers", by="ann")
    result.refresh()
    [error] = result.errors
    assert (result.status, result.attempts) == ("FAILED", 0)
    assert (error.exception_class.__name__, error.traceback) == (
        "MessageCancelled", "Cancelled by ann: the wrong numbers\n",
    )  # fmt: skip
    assert result.is_finished
    run_consumers("default")
    assert Message.objects.get(pk=int(result.id)).is_dead


def test_one_that_has_ended_is_refused(jobs: Any) -> None:
    result = jobs.add.enqueue(1, 2)
    run_consumers("default")
    with pytest.raises(NotCancelled, match="is done already"):
        result.cancel()
    again = jobs.add.enqueue(1, 2)
    async_to_sync(again.acancel)()
    with pytest.raises(NotCancelled, match="is dead already"):
        again.cancel()
    assert Message.objects.get(pk=int(again.id)).error == "Cancelled: by its sender"


def test_an_async_task_that_runs_is_cancelled_and_its_child_goes_on(
    start_worker: Callable[..., Any], odd: Any, jobs: Any, tmp_path: Path
) -> None:
    begun, cancelled = tmp_path / "begun", tmp_path / "cancelled"
    result = odd.wait_to_be_cancelled.enqueue(str(begun), str(cancelled))
    worker = start_worker("--queues", "jobs", "--grace", "600")
    wait_until(begun.exists, lambda: f"its start; output:\n{worker.output}")
    result.cancel("too late")
    wait_until(cancelled.exists, lambda: f"its cancellation; output:\n{worker.output}")
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 1)
    assert all(result.worker_ids)
    worker.wait_for_output("tests.tasks_app.odd_jobs.wait_to_be_cancelled runs it (Cancelled: too late)")
    after = jobs.add.using(queue_name="jobs").enqueue(1, 2)
    wait_until(lambda: Message.objects.get(pk=int(after.id)).status == "y", "the next one")
    assert "still runs" not in worker.output


def test_a_task_in_a_thread_that_hangs_has_its_child_replaced(
    start_worker: Callable[..., Any], odd: Any, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    result = odd.hang.enqueue(str(begun))
    worker = start_worker("--queues", "jobs", "--grace", "1")
    wait_until(begun.exists, lambda: f"its start; output:\n{worker.output}")
    result.cancel("too late")
    worker.wait_for_output("tests.tasks_app.odd_jobs.hang still runs")
    after = odd.optioned.using(queue_name="jobs").enqueue()
    wait_until(lambda: Message.objects.get(pk=int(after.id)).status == "y", "the next one")
    result.refresh()
    assert result.status == "FAILED"
