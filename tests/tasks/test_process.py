"""Tasks in real workers: killed, many, and with two kinds of end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models import Count

from django_dbqueue.models import Message, Result
from django_dbqueue.tasks import wait_for
from tests.process.conftest import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_task_whose_process_was_killed_comes_again_and_the_attempt_counts(
    start_worker: Callable[..., Any], jobs: Any, tmp_path: Path
) -> None:
    result = jobs.end_the_process_once.enqueue(str(tmp_path / "mark"))
    worker = start_worker("--queues", "jobs")
    wait_for(result, timeout=PATIENCE)
    assert (result.status, result.attempts, len(result.errors)) == ("SUCCESSFUL", 2, 1)
    assert result.errors[0].exception_class.__name__ == "WorkerLost"
    assert all(result.worker_ids), result.worker_ids
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output


def test_each_of_many_has_its_own_result(start_worker: Callable[..., Any], jobs: Any) -> None:
    results = [jobs.add.enqueue(number, 1) for number in range(40)]
    more = [(jobs.add, (number, 1), {}) for number in range(40, 1_500)]
    jobs.add.get_backend().enqueue_many([*more, *[(jobs.pause, (f"queue-{number}",), {}) for number in range(40)]])
    worker = start_worker("--queues", "default", "--drain", "--processes", "2", "--threads", "2")
    assert worker.ended() == 0, worker.output
    for number, result in enumerate(results):
        result.refresh()
        assert result.return_value == number + 1
    values = {row.pk: row.value for row in Result.objects.all()}
    assert len(values) == 1_540
    for message in Message.objects.done("default").filter(headers_text__contains="jobs.add"):
        assert values[message.pk] == sum(message.payload["args"])
    assert Message.objects.values("status").annotate(count=Count("pk")).get() == {"status": "y", "count": 1_540}


def test_a_worker_refuses_a_backend_that_cannot_be(start_worker: Callable[..., Any]) -> None:
    wrong = '{"default": {"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "OPTIONS": {"retries": 3}}}'
    worker = start_worker(DBQUEUE_TEST_TASKS=wrong)
    assert worker.ended() == 1
    assert "has no option 'retries'" in worker.output


def test_a_backend_for_any_queue_has_the_queues_that_are_named(start_worker: Callable[..., Any], jobs: Any) -> None:
    result = jobs.add.using(backend="other", queue_name="whatever").enqueue(1, 2)
    worker = start_worker("--queues", "whatever", "--drain")
    assert worker.ended() == 0, worker.output
    result.refresh()
    assert result.return_value == 3
