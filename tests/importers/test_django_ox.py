"""What becomes of the rows of django-ox."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import models
from django.utils import timezone

from django_dbqueue.models import Message
from tests.commands.running import run
from tests.importers.layouts import (
    OxpullBatchMember,
    OxpullWorkflowNode,
    OxScheduleTick,
    OxTask,
    created,
    hidden,
)
from tests.importers.others import NOTHING, DjangoOx, assert_it_stays, imported_from

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("its_table")]
OTHER = DjangoOx()


def test_a_task_keeps_its_arguments_queue_priority_and_time() -> None:
    due = datetime(2098, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)
    call: dict[str, Any] = {"args": [1, {"ü": None}], "kwargs": {"b": "x"}}
    OTHER.enqueue([0], queue_name="jobs", priority=-7, run_after=due, **call)
    key = str(OxTask.objects.get().pk)
    assert imported_from(OTHER)["taken"] == 1
    message = Message.objects.get()
    assert (message.payload, message.queue, message.priority, message.due_at) == (call, "jobs", -7, due)
    assert message.headers == {"dbqueue.task": NOTHING, "dbqueue.imported_from": f"django-ox {key}"}
    assert message.max_reads == 3, "the option of the backend, as of a task that is enqueued here"


def test_what_is_not_delayed_or_overdue_is_due_at_once() -> None:
    OTHER.enqueue([0])
    OTHER.enqueue([1], run_after=timezone.now() - timedelta(days=3))
    imported_from(OTHER)
    assert Message.objects.ready("default").count() == 2


def test_what_waits_for_another_attempt_is_imported_with_all_its_attempts() -> None:
    OTHER.enqueue([0], attempts=2, run_after=timezone.now() + timedelta(minutes=10))
    assert imported_from(OTHER)["taken"] == 1
    message = Message.objects.get()
    assert (message.read_count, message.max_reads, message.due_at > timezone.now()) == (0, 3, True)


def test_a_backend_keeps_its_alias() -> None:
    OTHER.enqueue([0], backend_name="other")
    imported_from(OTHER)
    assert Message.objects.get().headers["dbqueue.backend"] == "other"


def test_what_runs_is_held_back_or_has_ended_is_counted_and_left() -> None:
    states = ("READY", "RUNNING", "WAITING", "SUCCESSFUL", "FAILED", "LOST", "DISCARDED", "LATER")
    for status in states:
        OTHER.enqueue([0], status=status)
    counts = imported_from(OTHER)
    assert [counts[name] for name in ("waiting", "running", "ended", "taken")] == [1, 3, 4, 1], (
        "a state that is not known may be none of the ends"
    )
    assert sorted(OxTask.objects.values_list("status", flat=True)) == sorted(states[1:])


def test_the_due_times_that_a_schedule_has_met_stay_and_forget_what_was_moved() -> None:
    OTHER.enqueue(range(2))
    OTHER.enqueue([2], status="RUNNING")
    assert imported_from(OTHER)["taken"] == 2
    running = OxTask.objects.get().pk
    assert sorted(OxScheduleTick.objects.values_list("task_id", flat=True), key=str) == sorted(
        [running, None, None], key=str
    )


@pytest.mark.parametrize("members", [OxpullBatchMember, OxpullWorkflowNode])
def test_members_of_a_batch_or_a_workflow_stay(members: type[models.Model]) -> None:
    OTHER.enqueue(range(2))
    first = OxTask.objects.order_by("enqueued_at").first()
    assert first is not None
    with created(members):
        members._base_manager.create(task_id=first.pk)
        counts = imported_from(OTHER)
    assert [counts[name] for name in ("waiting", "running", "taken")] == [1, 1, 1]
    assert OxTask.objects.get().pk == first.pk


def test_a_version_without_the_table_of_due_times_is_refused() -> None:
    OTHER.enqueue([0])
    OxScheduleTick.objects.all().delete()
    with hidden(OxScheduleTick):
        ended = run("queue_import", OTHER.name, "--yes")
    assert (ended.code, Message.objects.count(), len(OTHER.waiting())) == (1, 0, 1)
    assert "has no table django_ox_oxscheduletick" in ended.err


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"task_path": "shop.gone.task"}, "The task shop.gone.task can't be imported: No module named 'shop'"),
        ({"backend_name": "gone"}, "can't be enqueued so: The connection 'gone' doesn't exist."),
        ({"queue_name": "unknown"}, "can't be enqueued so"),
        ({"args": {}}, "not stored as django-ox stores them"),
        ({"kwargs": []}, "not stored as django-ox stores them"),
    ],
)
def test_what_can_not_be_a_task_here_stays_with_its_reason(columns: dict[str, object], why: str) -> None:
    assert_it_stays(OTHER, why, **columns)
    assert Message.objects.get().payload["args"] == [1]
