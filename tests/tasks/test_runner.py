"""What becomes of a task that a worker runs: its result, its attempts, its retries."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_dbqueue import Reject, consumer
from django_dbqueue.lifecycle.expired_rows import forget_results
from django_dbqueue.models import Message, MessageEvent, Result
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.tasks import compat
from django_dbqueue.tasks.task_headers import BACKEND, EXPIRES, TASK
from django_dbqueue.testing import run_consumers
from tests.tasks.hearing import ENDS, hearing
from tests.tasks.running import run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard() -> Iterator[list[tuple[str, str, int]]]:
    """Signals, each with the status and the number of errors that its result showed."""
    found: list[tuple[str, str, int]] = []

    def note(name: str) -> Any:
        def receiver(sender: type, task_result: Any, **_: Any) -> None:
            found.append((name, str(task_result.status), len(task_result.errors)))

        return receiver

    started, finished = ENDS
    with hearing(note(started), started), hearing(note(finished), finished):
        yield found


def test_a_result_is_kept_with_its_message(jobs: Any, heard: list[Any]) -> None:
    result = jobs.add.enqueue(1, 2)
    run()
    result.refresh()
    assert (result.status, result.return_value, result.attempts, result.errors) == ("SUCCESSFUL", 3, 1, [])
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at
    assert Result.objects.get().value == 3
    assert heard == [("task_started", "RUNNING", 0), ("task_finished", "SUCCESSFUL", 0)]


def test_a_task_that_comes_to_a_consumer_is_dead_instead_of_acked_unrun(
    jobs: Any, settings: Any, registry: dict[str, Any]
) -> None:
    seen: list[Message] = []
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": []}}
    consumer("mail")(seen.append)
    result = jobs.add.using(queue_name="mail").enqueue(1, 2)
    run_consumers("mail")
    result.refresh()
    assert (seen, result.status) == ([], "FAILED")
    assert "It is the task tests.tasks_app.jobs.add, but its queue has the consumer" in str(Message.objects.get().error)


def test_what_returns_nothing_or_keeps_nothing_writes_no_row(jobs: Any) -> None:
    results = [jobs.nothing.enqueue(), jobs.forgettable.enqueue()]
    run()
    for result in results:
        result.refresh()
        assert (result.status, result.return_value) == ("SUCCESSFUL", None)
    assert not Result.objects.exists()


def test_a_failing_task_is_retried_and_each_attempt_is_kept(jobs: Any, heard: list[Any]) -> None:
    result = jobs.fail.enqueue("so it is")
    run()
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == ("READY", 1, 1)
    run(with_delayed=True)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == ("FAILED", 3, 3)
    for error in result.errors:
        assert error.exception_class is ValueError
        assert error.traceback.endswith("ValueError: so it is\n")
        assert error.traceback.startswith("Traceback (most recent call last)")
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    assert [name for name, *_ in heard] == ["task_started"] * 3 + ["task_finished"]
    assert heard[-1] == ("task_finished", "FAILED", 3)


def test_djangos_log_names_a_failure_with_its_traceback(jobs: Any, caplog: pytest.LogCaptureFixture) -> None:
    jobs.fail_once.enqueue()
    with caplog.at_level(logging.ERROR, compat.HOME):
        run()
    [record] = [each for each in caplog.records if each.name == compat.HOME]
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError


def test_a_task_decides_when_it_is_retried(jobs: Any) -> None:
    jobs.SEEN.clear()
    jobs.fail_later.enqueue()
    before = timezone.now()
    run("jobs")
    assert [(ValueError, 1, 1)] == jobs.SEEN
    row = Message.objects.get()
    assert row.available_at is not None
    assert 6_900 < (row.available_at - before).total_seconds() < 7_100


def test_a_backoff_that_fails_hides_no_error(jobs: Any, caplog: pytest.LogCaptureFixture) -> None:
    result = jobs.fail_twice_over.enqueue()
    run()
    result.refresh()
    assert result.status == "READY"
    assert [error.exception_class for error in result.errors] == [ValueError]
    assert "no delay for you" in caplog.text


@pytest.mark.parametrize("use_tz", [True, False])
def test_moments_compare_in_every_setting_of_the_zone(jobs: Any, use_tz: bool, settings: Any) -> None:
    settings.USE_TZ = use_tz
    late, in_time = jobs.add.apply_async((1, 2), expires=-1), jobs.add.apply_async((1, 2), expires=60, countdown=0)
    unknown = Message.objects.enqueue({"args": [], "kwargs": {}}, headers={TASK: "no.such.task"})
    run()
    late.refresh()
    in_time.refresh()
    unknown.refresh_from_db()
    assert (late.status, in_time.status, unknown.read_count) == ("FAILED", "SUCCESSFUL", 0)


def test_the_context_has_which_attempt_it_is(jobs: Any) -> None:
    result = jobs.attempt.enqueue()
    run(with_delayed=True)
    result.refresh()
    assert result.return_value == [2, result.id, 1]
    assert result.attempts == 2


def test_a_result_that_is_no_json_fails_at_once(jobs: Any) -> None:
    result = jobs.give_set.enqueue()
    run(with_delayed=True)
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 1)
    assert result.errors[0].exception_class is TypeError
    assert "Unsupported type" in result.errors[0].traceback
    assert not Result.objects.exists()


def test_a_result_that_contains_itself_fails_at_once(jobs: Any) -> None:
    result = jobs.give_itself.enqueue()
    run(with_delayed=True)
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 1)
    assert result.errors[0].exception_class is TypeError


@pytest.mark.parametrize("reason", ["no such user", "", "Timeout: x", "a.b.c", "ValueError: it says", "\0", "Größe"])
def test_a_rejected_task_shows_a_reject_and_no_lost_worker(jobs: Any, reason: str) -> None:
    result = jobs.turn_away.enqueue(reason)
    run()
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 1)
    assert result.errors[0].exception_class is Reject
    assert (reason or "Rejected").replace("\0", "\\0") in result.errors[0].traceback


def test_an_error_of_a_class_that_a_function_defines_is_no_lost_worker(jobs: Any) -> None:
    result = jobs.fail_here.enqueue()
    run(with_delayed=True)
    result.refresh()
    assert result.errors[0].exception_class_path == "tests.tasks_app.jobs.fail_here.<locals>.Here"


@pytest.mark.parametrize("path", ["tests.tasks_app.jobs.gone", "no.module.here", "tests.tasks_app.jobs.not_a_task"])
def test_an_unknown_task_is_released_for_an_hour_and_then_fails(
    jobs: Any, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    message = Message.objects.enqueue({"args": [], "kwargs": {}}, headers={TASK: path}, max_reads=1)
    run()
    message.refresh_from_db()
    assert (message.status, message.read_count) == ("n", 0)
    assert message.available_at is not None
    assert message.available_at > message.claimed_at + timedelta(seconds=5)
    assert path in caplog.text
    hour_ago = timezone.now() - timedelta(hours=1, seconds=1)
    Message.objects.filter(pk=message.pk).update(available_at=hour_ago, due_at=hour_ago)
    run()
    message.refresh_from_db()
    assert message.is_dead
    assert path in str(message.error)


def test_what_is_claimed_after_it_expired_is_never_run(jobs: Any) -> None:
    jobs.SEEN.clear()
    late = jobs.nothing.apply_async(expires=timezone.now() - timedelta(seconds=1))
    in_time = jobs.nothing.apply_async((1,), expires=3_600)
    run()
    late.refresh()
    in_time.refresh()
    assert (late.status, in_time.status) == ("FAILED", "SUCCESSFUL")
    assert jobs.SEEN == [((1,), {})]
    row = Message.objects.get(pk=int(late.id))
    assert str(row.error).startswith("Expired")
    assert EXPIRES in row.headers


@pytest.mark.parametrize(
    ("forged", "error"),
    [
        ({EXPIRES: "tomorrow"}, "must be a moment in ISO 8601"),
        ({EXPIRES: "2030-01-01"}, "with an offset"),
        ({EXPIRES: 17}, "must be a moment"),
        ({BACKEND: ["default"]}, "must be the alias of a backend"),
    ],
)
def test_a_header_that_somebody_has_changed_kills_the_message_with_a_sentence(
    jobs: Any, forged: dict[str, Any], error: str
) -> None:
    headers = {TASK: jobs.nothing.module_path, **forged}
    message = Message.objects.enqueue({"args": [], "kwargs": {}}, headers=headers)
    run()
    message.refresh_from_db()
    assert (message.is_dead, message.read_count) == (True, 1)
    assert error in str(message.error)


def test_a_result_is_found_in_the_history_too(jobs: Any) -> None:
    done, failed = jobs.add.enqueue(1, 2), jobs.fail_once.enqueue()
    run()
    done.refresh()
    before = done.finished_at
    Message.objects.archive(older_than=0)
    for message in Message.objects.dead():
        message.refresh_from_db()
    done.refresh()
    failed.refresh()
    assert not Message.objects.done("default").exists()
    assert (done.status, done.return_value, done.finished_at, done.attempts) == ("SUCCESSFUL", 3, before, 1)
    assert failed.status == "FAILED"


def test_results_are_forgotten_when_their_time_has_ended(jobs: Any) -> None:
    kept, over = jobs.add.enqueue(1, 2), jobs.add.enqueue(3, 4)
    run()
    Result.objects.filter(pk=int(over.id)).update(expires_at=DbNow())
    assert forget_results(session_of("default"), limit=100) == 1
    assert forget_results(session_of("default"), limit=100) == 0
    assert list(Result.objects.values_list("pk", flat=True)) == [int(kept.id)]


def test_other_failures_keep_no_traceback_in_their_record(jobs: Any) -> None:
    message = Message.objects.enqueue({"args": [1]})
    [held] = Message.objects.claim(1)
    held.nack(error=ValueError("x"))
    assert MessageEvent.objects.get(message_id=message.pk).detail == "ValueError: x"


@pytest.mark.parametrize("name", ["give_rows", "give_rows_asynchronously", "give_calls", "give_coroutines"])
def test_a_task_of_which_nothing_has_run_has_failed_with_a_sentence(jobs: Any, name: str) -> None:
    result = getattr(jobs, name).enqueue()
    run()
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 1)
    assert f"TypeError: tests.tasks_app.jobs.{name} returned a" in result.errors[0].traceback
    assert "so its work was not done" in result.errors[0].traceback
