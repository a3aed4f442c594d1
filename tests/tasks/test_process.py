"""Tasks in real workers: killed, many, and with two kinds of end."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Count

from django_dbqueue.models import Message, Result
from django_dbqueue.tasks import wait_for
from tests.process.conftest import PATIENCE, wait_until, whole_lines
from tests.tasks.conftest import TASKS

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


@pytest.mark.parametrize("kind", ["plain", "async", "transactional"])
def test_among_tasks_that_kill_their_process_each_done_one_has_its_result(
    start_worker: Callable[..., Any], jobs: Any, kind: str
) -> None:
    """What had returned, and was not yet acked when its process died, runs again, uncharged (P17)."""
    calls: dict[str, Callable[[int], tuple[Any, tuple[Any, ...]]]] = {
        "plain": lambda number: (jobs.add, (number, number)),
        "async": lambda number: (jobs.double, (number,)),
        "transactional": lambda number: (jobs.pause, (f"queue-{number}",)),
    }
    kills = {40, 60, 80}
    tasks = [(jobs.end_the_process, ()) if number in kills else calls[kind](number) for number in range(100)]
    jobs.add.get_backend().enqueue_many([(task, args, {}) for task, args in tasks])
    worker = start_worker("--queues", "default", "--drain")
    assert worker.ended() == 0, worker.output
    messages = list(Message.objects.order_by("pk"))
    values = {row.pk: row.value for row in Result.objects.all()}
    for number, message in enumerate(messages):
        if number in kills:
            assert message.is_dead
            continue
        assert (message.status, message.read_count) == ("y", 1), (number, worker.output)
        assert values[message.pk] == (f"paused queue-{number}" if kind == "transactional" else 2 * number)
    assert len(values) == 97


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


def test_a_timeout_names_the_task_and_cancels_an_async_one_in_its_child(
    start_worker: Callable[..., Any], odd: Any, tmp_path: Path
) -> None:
    """What can't be cancelled has its child replaced, and is settled by the supervisor."""
    mark = tmp_path / "children"
    cancelled = odd.wait_long.enqueue(str(mark))
    slow = json.dumps({"QUEUES": {"jobs": {"timeout": 1.0, "backoff": 0.01}}})
    first = start_worker("--queues", "jobs", "--drain", DBQUEUE_TEST_SETTINGS=slow)
    assert first.ended() == 0, first.output
    assert len(whole_lines(mark)) == 3
    assert len(set(whole_lines(mark))) == 1, f"a child was replaced; output: {first.output}"
    hung = odd.sleep_long.enqueue()
    second = start_worker("--queues", "jobs", "--drain", "--grace", "0", DBQUEUE_TEST_SETTINGS=slow)
    assert second.ended() == 0, second.output
    for result, worker in ((cancelled, first), (hung, second)):
        result.refresh()
        expected = f"TimedOut: {result.task.module_path} ran longer than its timeout of 1 s"
        assert (result.status, result.attempts) == ("FAILED", 3)
        assert [each.exception_class for each in result.errors] == [TimeoutError] * 3
        assert expected in str(Message.objects.get(pk=int(result.id)).error)
        assert expected in worker.output
        assert "run_task" not in worker.output


@pytest.mark.parametrize(
    ("name", "of_queue"),
    [
        ("sleep_too_long", {}),
        ("sleep_too_long", {"timeout": 3_600}),
        ("hold_the_interpreter", {}),
        ("wait_too_long", {"timeout": 3_600}),
    ],
)
def test_the_timeout_of_a_task_cuts_it_off_whatever_its_queue_has(
    start_worker: Callable[..., Any], odd: Any, jobs: Any, tmp_path: Path, name: str, of_queue: dict[str, int]
) -> None:
    """Where the child can't continue, the supervisor settles it, by the task's own back-off."""
    arguments = (str(tmp_path / "children"),) if name == "wait_too_long" else ()
    result, other = getattr(odd, name).enqueue(*arguments), jobs.add.using(queue_name="jobs").enqueue(1, 2)
    slow = json.dumps({"QUEUES": {"jobs": {"backoff": 3_600, "backoff_max": 3_600, **of_queue}}})
    worker = start_worker("--queues", "jobs", "--drain", "--grace", "0", DBQUEUE_TEST_SETTINGS=slow)
    assert worker.ended() == 0, worker.output
    result.refresh()
    other.refresh()
    assert (result.status, result.attempts, other.status) == ("FAILED", 2, "SUCCESSFUL")
    assert [each.exception_class for each in result.errors] == [TimeoutError] * 2
    expected = f"TimedOut: {result.task.module_path} ran longer than its timeout of 1 s"
    assert expected in str(Message.objects.get(pk=int(result.id)).error)
    assert expected in worker.output or name == "hold_the_interpreter"


def test_a_task_with_a_cron_is_enqueued_once_for_each_due_time_by_two_workers_of_which_one_is_killed(
    start_worker: Callable[..., Any],
) -> None:
    tasks = TASKS | {"default": {**TASKS["default"], "QUEUES": ["by-the-clock"]}}
    how = {"DJANGO_SETTINGS_MODULE": "tests.process.scheduled_settings", "DBQUEUE_TEST_TASKS": json.dumps(tasks)}
    first, second = (start_worker("--queues", "by-the-clock", **how) for _ in range(2))

    def due_times() -> list[datetime]:
        headers = [message.headers for message in Message.objects.in_queue("by-the-clock").order_by("pk")]
        assert {each["dbqueue.task"] for each in headers} <= {"tests.scheduled_app.tasks.tick"}
        return [datetime.fromisoformat(each["dbqueue.due"]) for each in headers]

    wait_until(lambda: len(due_times()) >= 3, "three ticks")
    first.signal_all(signal.SIGKILL)
    before = len(due_times())
    wait_until(lambda: len(due_times()) >= before + 3, "three more")
    wait_until(lambda: Result.objects.count() >= 3, "results")
    second.wait_for_output("worker started")
    assert (
        "tests.sick_tasks_app.tasks can't be imported, so no task in it is scheduled: half a release" in second.output
    )
    second.signal(signal.SIGTERM)
    assert second.ended() == 0, second.output
    times = due_times()
    assert times == [times[0] + number * timedelta(seconds=1) for number in range(len(times))]
    assert {row.value for row in Result.objects.all()} == {"tick"}
