"""What becomes of the jobs of django-db-queue."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from django_dbqueue import consumer
from django_dbqueue.models import Message
from tests.importers.layouts import Job
from tests.importers.others import DjangoDBQueue, assert_it_stays, imported_from

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("its_table")]
OTHER = DjangoDBQueue()


def test_a_job_keeps_its_workspace_place_queue_priority_and_time() -> None:
    due = datetime(2098, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)
    OTHER.enqueue([1], state="READY", next_task="shop.jobs.second", priority=3, run_after=due)
    key = Job.objects.get().pk
    assert imported_from(OTHER)["taken"] == 1
    message = Message.objects.get()
    assert message.payload == {"job": "report", "next_task": "shop.jobs.second", "workspace": {"n": 1}}
    assert (message.queue, message.priority, message.due_at) == ("reports", 3, due)
    assert message.headers == {"dbqueue.imported_from": f"django-db-queue {key}"}


def test_what_runs_and_what_has_ended_is_counted_and_left() -> None:
    for state in ("NEW", "READY", "PROCESSING", "STOPPING", "FAILED", "COMPLETE"):
        OTHER.enqueue([0], state=state)
    counts = imported_from(OTHER)
    assert [counts[name] for name in ("waiting", "running", "ended", "taken")] == [2, 2, 2, 2]
    states = sorted(Job.objects.values_list("state", flat=True))
    assert states == ["COMPLETE", "FAILED", "PROCESSING", "STOPPING"]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"queue_name": "jobs"}, "Queue 'jobs' runs tasks, and jobs need a consumer"),
        ({"queue_name": "a b"}, "'a b' is not a queue name"),
        ({"priority": 101}, "priority must be a whole number from -100 to 100, not 101."),
    ],
)
def test_what_can_not_be_a_message_here_stays_with_its_reason(columns: dict[str, Any], why: str) -> None:
    assert_it_stays(OTHER, why, **columns)


def test_a_queue_of_tasks_that_has_a_consumer_takes_jobs() -> None:
    consumer("jobs")(print)
    OTHER.enqueue([0], queue_name="jobs")
    assert imported_from(OTHER)["taken"] == 1
