"""Steps of tasks: the context of a task has them, and what Django's own tests know of it stays (P21)."""

from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue.models import Event, Message, Step
from django_dbqueue.models.fields import DbNow
from django_dbqueue.tasks.compat import TaskContext
from django_dbqueue.testing import run_consumers

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_task_continues_where_it_was(jobs: Any) -> None:
    jobs.SEEN.clear()
    result = jobs.in_steps.enqueue(5)
    [handled] = run_consumers("default")
    assert (handled.outcome, handled.error) == ("waiting", None)
    result.refresh()
    assert (result.status, result.attempts, result.errors) == ("READY", 0, [])
    [handled] = run_consumers("default", with_delayed=True)
    assert handled.outcome == "waiting"
    Event.objects.emit("paid:5", 7)
    run_consumers("default")
    result.refresh()
    assert (result.status, result.return_value) == ("SUCCESSFUL", [5, 7])
    assert jobs.SEEN == ["charged 5", ("booked", True)]


def test_an_async_task_has_steps(jobs: Any) -> None:
    jobs.SEEN.clear()
    result = jobs.in_steps_async.enqueue(5)
    run_consumers("default", with_delayed=True)
    result.refresh()
    assert (result.status, result.return_value) == ("SUCCESSFUL", 10)
    assert jobs.SEEN == ["doubled 5"]


@pytest.mark.parametrize("name", ["resume", "resume_async"])
def test_a_task_continues_at_the_cursor_of_its_step(odd: Any, name: str) -> None:
    result = getattr(odd, name).enqueue()
    run_consumers("default", with_delayed=True)
    result.refresh()
    assert (result.status, result.return_value) == ("SUCCESSFUL", "counted")
    assert odd.SEEN == [None, 17]


def test_a_task_whose_attempt_failed_does_its_steps_once(jobs: Any) -> None:
    jobs.SEEN.clear()
    jobs.fail_behind_a_step.enqueue()
    run_consumers("default", on_error="collect")
    assert Message.objects.update(available_at=DbNow()) == 1
    run_consumers("default", on_error="collect")
    assert jobs.SEEN == ["worked"]
    assert Step.objects.get().read_count == 1


def test_the_context_is_djangos_with_more(jobs: Any) -> None:
    jobs.SEEN.clear()
    jobs.check_context.enqueue()
    run_consumers("default")
    context, attempt = jobs.SEEN[0]
    assert isinstance(context, TaskContext)
    assert attempt == 1
    assert "message" not in repr(context)
