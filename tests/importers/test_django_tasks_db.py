"""What becomes of the rows of django-tasks-db."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from django_dbqueue.models import Message
from tests.importers.layouts import DBTaskResult
from tests.importers.others import DjangoTasksDB, assert_it_stays, imported_from

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("its_table")]

NOTHING = "tests.tasks_app.jobs.nothing"
OTHER = DjangoTasksDB()


def test_a_task_keeps_its_arguments_queue_priority_and_time() -> None:
    due = datetime(2098, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)
    call = {"args": [1, {"ü": None}], "kwargs": {"b": "x"}}
    OTHER.enqueue([0], queue_name="jobs", priority=-7, run_after=due, args_kwargs=call)
    key = str(DBTaskResult.objects.get().pk)
    assert imported_from(OTHER)["taken"] == 1
    message = Message.objects.get()
    assert (message.payload, message.queue, message.priority, message.due_at) == (call, "jobs", -7, due)
    assert message.headers == {"dbqueue.task": NOTHING, "dbqueue.imported_from": f"django-tasks-db {key}"}
    assert message.max_reads == 3, "the option of the backend, as of a task that is enqueued here"


def test_what_is_not_delayed_or_overdue_is_due_at_once() -> None:
    OTHER.enqueue([0])
    OTHER.enqueue([1], run_after=timezone.now() - timedelta(days=3))
    imported_from(OTHER)
    assert Message.objects.ready("default").count() == 2


def test_a_backend_keeps_its_alias() -> None:
    OTHER.enqueue([0], backend_name="other")
    imported_from(OTHER)
    assert Message.objects.get().headers["dbqueue.backend"] == "other"


def test_what_runs_and_what_has_ended_is_counted_and_left() -> None:
    for status in ("READY", "RUNNING", "SUCCESSFUL", "FAILED", "FAILED"):
        OTHER.enqueue([0], status=status)
    counts = imported_from(OTHER)
    assert [counts[name] for name in ("waiting", "running", "ended", "taken")] == [1, 1, 3, 1]
    assert sorted(DBTaskResult.objects.values_list("status", flat=True)) == [
        "FAILED",
        "FAILED",
        "RUNNING",
        "SUCCESSFUL",
    ]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"task_path": "shop.gone.task"}, "The task shop.gone.task can't be imported: No module named 'shop'"),
        ({"task_path": "tests.tasks_app.jobs.soon"}, "is function, not a task: decorate the function with @task."),
        ({"backend_name": "gone"}, "can't be enqueued so: The connection 'gone' doesn't exist."),
        ({"queue_name": "unknown"}, "can't be enqueued so"),
        ({"args_kwargs": [1]}, "not stored as django-tasks-db stores them"),
        ({"args_kwargs": {"args": []}}, "not stored as django-tasks-db stores them"),
    ],
)
def test_what_can_not_be_a_task_here_stays_with_its_reason(columns: dict[str, object], why: str) -> None:
    assert_it_stays(OTHER, why, **columns)
    assert Message.objects.get().payload["args"] == [1]


def test_rows_that_stay_do_not_use_up_the_limit() -> None:
    OTHER.enqueue(range(2), task_path="shop.gone.task")
    OTHER.enqueue([7])
    assert imported_from(OTHER, "--limit", "1")["taken"] == 1
    assert Message.objects.get().payload["args"] == [7]
