"""What the doctor says of tasks that can't be imported here, and of results that nobody deletes; on every database."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings

from django_dbqueue.doctor import task_checks
from django_dbqueue.doctor.examined_database import ExaminedDatabase
from django_dbqueue.doctor.finding import Finding
from django_dbqueue.models import Message, Result
from django_dbqueue.models.fields import DbNow
from django_dbqueue.tasks.task_headers import BACKEND, TASK
from tests.doctor.conftest import AGO, examined, levels, worker
from tests.factories import dead, held, waiting, written_by_sql

pytestmark = pytest.mark.django_db

ADD = "tests.tasks_app.jobs.add"
TASKS = {"default": {"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "QUEUES": ["default", "jobs"]}}


@pytest.fixture(autouse=True)
def _tasks() -> Any:
    with override_settings(TASKS=TASKS):
        yield


def naming(path: str, *, queue: str = "jobs", alias: str = "", **options: Any) -> Message:
    """A waiting message of a task."""
    return waiting(queue=queue, headers={TASK: path} | ({BACKEND: alias} if alias else {}), **options)


def found_of(check: str) -> list[Finding]:
    return examined()[check]


def test_tasks_that_are_here_are_fine_and_so_is_a_queue_without_any() -> None:
    waiting(queue="jobs")
    waiting(queue="jobs", headers={"trace": "1"})
    written_by_sql("1", queue="jobs", headers_text="{", available_at=DbNow())
    [finding] = found_of("tasks")
    assert finding.level == "ok"
    assert "examined: 3" in finding.found
    naming(ADD)
    naming(ADD, delay=3600)
    [finding] = found_of("tasks")
    assert finding.level == "ok"
    assert "(tasks: 1, messages examined: 5)" in finding.found


@pytest.mark.parametrize(
    ("path", "alias", "words"),
    [
        ("tests.tasks_app.jobs.gone", "", '"gone" attribute'),
        ("tests.tasks_app.no_such_module.add", "", "No module named 'tests.tasks_app.no_such_module'"),
        ("tests.tasks_app.jobs.not_a_task", "", "it is no task, but int"),
        ("add", "", "doesn't look like a module path"),
        (ADD, "elsewhere", "'elsewhere' doesn't exist"),
        ("tests.doctor.broken_app.queue_consumers.add", "", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_task_that_is_not_here_is_a_warning_that_gives_the_reason(path: str, alias: str, words: str) -> None:
    naming(ADD)
    naming(path, alias=alias)
    naming(path, alias=alias, queue="more", delay=3600)
    [finding] = found_of("tasks")
    assert finding.level == "warning"
    assert f"the task {path}, which can't be imported here: " in finding.found
    assert words in finding.found
    assert finding.found.endswith("(2 of the 3 messages examined; queues: jobs, more).")
    assert "keep it under its old name" in finding.do


def test_where_there_is_no_django_tasks_no_task_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    naming(ADD)
    for name in ("compat", "lookup"):
        monkeypatch.delitem(sys.modules, f"django_dbqueue.tasks.{name}", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with override_settings(TASKS={}):
        [finding] = found_of("tasks")
    assert finding.level == "warning"
    assert "django-dbqueue[tasks]" in finding.found


def test_only_messages_that_wait_to_be_run_as_tasks_are_examined(register: Callable[..., None]) -> None:
    register("consumed")
    naming("no.such.task", queue="consumed")
    held(queue="jobs", headers={TASK: "no.such.task"})
    dead(queue="past", headers={TASK: "no.such.task"})
    written_by_sql("1", queue="not a name", headers_text=f'{{"{TASK}": "no.such.task"}}', available_at=DbNow())
    assert levels(examined(), "tasks") == ["ok"]


def test_of_each_queue_only_the_next_messages_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_checks, "EXAMINED", 6)
    for queue in ("jobs", "more"):
        for number in range(5):
            naming(f"no.such.task{number}", queue=queue)
    found = found_of("tasks")
    assert len(found) == 3
    assert all("(2 of the 6 messages examined; queues: jobs, more)" in each.found for each in found)


def test_of_many_tasks_that_are_not_here_the_first_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_checks, "MOST_NAMED", 2)
    for number in range(5):
        naming(f"no.such.task{number}")
    found = found_of("tasks")
    assert [each.level for each in found] == ["warning"] * 3
    assert "than the 2 listed" in found[2].found


def kept_until(number: int, hours: float) -> None:
    Result(pk=number, body="1", content_type="json", expires_at=DbNow() - timedelta(hours=hours)).save()


def test_results_that_are_kept_are_fine_and_so_are_those_that_the_next_turn_deletes() -> None:
    kept_until(1, -1)
    kept_until(2, 0.5)
    assert levels(examined(), "results") == ["ok"]


def test_results_that_are_not_deleted_are_counted_and_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_until(1, -1)
    kept_until(2, 2.5)
    kept_until(3, 5.5)
    [finding] = found_of("results")
    assert finding.level == "warning"
    assert finding.found.startswith("Results of tasks that should have been deleted: 2, the oldest 5 h ago.")
    assert "Start a worker" in finding.do
    monkeypatch.setattr(task_checks, "COUNTED", 1)
    assert found_of("results")[0].found.startswith("Results of tasks that should have been deleted: 1+, ")


def test_queues_in_tasks_that_no_worker_serves_are_a_warning_while_some_worker_lives() -> None:
    assert "task-queues" not in examined()
    worker(1, queues="default,other", beat_every=10_000)
    [finding] = found_of("task-queues")
    assert finding.level == "warning"
    assert "no worker serves: jobs." in finding.found
    assert finding.do == "manage.py run_queue_worker --queues jobs"
    worker(2, queues="jobs", beat_at=AGO, late_at=AGO)
    assert levels(examined(), "task-queues") == ["warning"], "it is gone"
    worker(3, queues="jobs", beat_every=10_000)
    assert levels(examined(), "task-queues") == ["ok"]


class Elsewhere:
    def db_for_write(self, model: Any, **_hints: Any) -> str | None:
        return "elsewhere" if model is Message else None


def test_where_no_task_is_sent_their_queues_are_not_examined() -> None:
    worker(1, queues="default", beat_every=10_000)
    database = ExaminedDatabase.at(connection)
    assert [each.level for each in task_checks.queues.examine(database)] == ["warning"]
    with override_settings(DATABASE_ROUTERS=["tests.doctor.test_tasks.Elsewhere"]):
        assert list(task_checks.queues.examine(database)) == []
