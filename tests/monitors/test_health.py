"""Health, as a page of ours and as a check of django-health-check: what `queue_status --check` says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import AsyncRequestFactory, Client, RequestFactory, override_settings
from health_check.exceptions import ServiceUnavailable, ServiceWarning
from health_check.views import HealthCheckView

from django_dbqueue.contrib.health_check import DBQueue
from django_dbqueue.contrib.health_view import HealthView, problems
from django_dbqueue.models import Message, Queue, Worker
from tests.factories import QUEUE, dead, let_pause_end, waiting
from tests.monitors.conftest import TOKEN

pytestmark = pytest.mark.django_db(transaction=True)


def serve(*queues: str) -> None:
    Worker.objects.create(id=1, host="h", pid=1, queues=",".join(queues or [QUEUE]), threads=1)


def test_a_queue_that_is_served_is_fine(monitor: Client) -> None:
    waiting()
    serve()
    answer = monitor.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "problems": []})
    assert answer.headers["Cache-Control"] == "no-store"


def test_each_problem_is_named_with_its_queue(monitor: Client) -> None:
    dead(queue="emails")
    waiting()
    Queue.objects.pause("reports", by="op")
    answer = monitor.get("/health")
    assert answer.status_code == 503
    assert answer.json() == {
        "ok": False,
        "problems": [
            {"queue": "emails", "problem": "dead"},
            {"queue": "reports", "problem": "paused"},
            {"queue": QUEUE, "problem": "no-worker"},
        ],
    }


def test_a_pause_with_an_end_is_shown_with_it_and_one_without_has_none(monitor: Client) -> None:
    dead(queue="emails")
    Queue.objects.pause("emails", until=datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC))
    Queue.objects.pause("reports")
    assert monitor.get("/health").json()["problems"] == [
        {"queue": "emails", "problem": "dead"},
        {"queue": "emails", "problem": "paused", "paused_until": "2100-01-02T03:04:05Z"},
        {"queue": "reports", "problem": "paused"},
    ]
    with pytest.raises(ServiceWarning) as raised:
        DBQueue().run()
    assert "emails: dead, emails: paused until 2100-01-02 03:04:05 UTC, reports: paused" in str(raised.value)


def test_a_pause_that_has_ended_is_no_problem(monitor: Client) -> None:
    Queue.objects.pause(QUEUE, for_=3600)
    assert monitor.get("/health").status_code == 503
    let_pause_end()
    assert monitor.get("/health").json() == {"ok": True, "problems": []}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"ignore": ("dead",)}, []),
        ({"queues": ("other",)}, []),
        ({}, ["dead"]),
        ({"max_age": 0.0}, ["dead", "old"]),
        ({"max_age": 3600.0}, ["dead"]),
    ],
)
def test_a_view_has_options(options: dict[str, Any], found: list[str]) -> None:
    dead()
    waiting()
    serve()
    request = RequestFactory().get("/health", headers={"Authorization": f"Bearer {TOKEN}"})
    with override_settings(DBQUEUE={"MONITOR_TOKEN": TOKEN}):
        answer = HealthView.as_view(**options)(request)
    assert f'"ok": {str(not found).lower()}' in answer.content.decode()
    for problem in found:
        assert f'"problem": "{problem}"' in answer.content.decode()


@pytest.fixture
def checked() -> Callable[..., Any]:
    """Ask django-health-check's own view, as JSON, in its own thread."""

    def ask(**options: Any) -> Any:
        view = HealthCheckView.as_view(checks=[("django_dbqueue.contrib.health_check.DBQueue", options)])
        return asyncio.run(view(AsyncRequestFactory().get("/", {"format": "json"})))

    return ask


def test_a_check_of_django_health_check_reports_the_same(checked: Callable[..., Any]) -> None:
    waiting()
    serve()
    assert checked().status_code == 200
    Worker.objects.all().delete()
    answer = checked()
    assert answer.status_code == 500
    assert f"{QUEUE}: no-worker" in answer.content.decode()
    assert checked(ignore=("no-worker",)).status_code == 200


def test_dead_letters_are_a_warning_and_anything_worse_is_not() -> None:
    DBQueue().run()
    dead()
    with pytest.raises(ServiceWarning, match=f"{QUEUE}: dead"):
        DBQueue().run()
    waiting()
    with pytest.raises(ServiceUnavailable, match=f"{QUEUE}: dead, {QUEUE}: no-worker"):
        DBQueue().run()
    DBQueue(queues=("other",)).run()
    assert repr(DBQueue(max_age=5.0)) == "DBQueue(queues=None, max_age=5.0, ignore=())"


def test_a_database_that_cannot_be_read_is_unavailable_without_its_error() -> None:
    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        return execute(sql.replace("django_dbqueue_", "no_such_"), *rest)

    with connection.execute_wrapper(fail), pytest.raises(ServiceUnavailable) as raised:
        DBQueue().run()
    assert str(raised.value) == "Unavailable: the queue's database can't be read"


def test_a_check_leaves_an_open_connection_open_and_no_other_one() -> None:
    connection.ensure_connection()
    DBQueue().run()
    assert connection.connection is not None
    connection.close()
    DBQueue().run()
    assert connection.connection is None
    assert not Message.objects.exists()


def test_the_name_of_one_queue_is_no_list_of_letters() -> None:
    dead(queue="emails")
    assert problems("default", queues="emails") == problems("default", queues=["emails"]) != []
    assert problems("default", queues="e") == []
