"""Health, as a page of ours and as a check of django-health-check: what `queue_status --check` says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import AsyncRequestFactory, Client, RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from health_check.exceptions import ServiceUnavailable, ServiceWarning
from health_check.views import HealthCheckView

from django_dbqueue.consumers import consumer
from django_dbqueue.contrib.health_check import DBQueue
from django_dbqueue.contrib.health_view import HealthView, Problem, problems
from django_dbqueue.models import Message, Queue, Worker
from tests.factories import QUEUE, dead, done, let_pause_end, waiting
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
        ({"ignore": "dead"}, []),
        ({"queues": ("other",)}, []),
        ({"queues": ("emials", "other")}, ["unknown"]),
        ({"queues": ("emials", QUEUE), "ignore": ("unknown",)}, ["dead"]),
        ({}, ["dead"]),
        ({"max_age": 0.0}, ["dead", "old"]),
        ({"max_age": 3600.0}, ["dead"]),
        ({"max_age": timedelta(hours=1)}, ["dead"]),
    ],
)
def test_a_view_has_options(options: dict[str, Any], found: list[str]) -> None:
    dead()
    waiting()
    serve(QUEUE, "other")
    request = RequestFactory().get("/health", headers={"Authorization": f"Bearer {TOKEN}"})
    with override_settings(DBQUEUE={"MONITOR_TOKEN": TOKEN}):
        answer = HealthView.as_view(**options)(request)
    assert f'"ok": {str(not found).lower()}' in answer.content.decode()
    for problem in found:
        assert f'"problem": "{problem}"' in answer.content.decode()
    assert answer.content.decode().count('"problem": ') == len(found)


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
    Queue.objects.create(name="other")
    DBQueue(queues=("other",)).run()
    with pytest.raises(ServiceUnavailable, match="emials: unknown"):
        DBQueue(queues=("other", "emials")).run()
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
    assert problems("default", queues="e") == [Problem("e", "unknown")]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"ignore": ("deda",)}, "can ignore stuck, dead, paused, no-worker, old, unknown, not 'deda'"),
    ({"ignore": "database"}, "not 'database'"),
    ({"ignore": None}, "ignore must be a list of names, or one name, not None"),
    ({"max_age": "x"}, "max_age must be a number of seconds or a timedelta, not 'x'"),
    ({"max_age": -1}, "max_age must be from 0"),
    ({"max_age": float("nan")}, "max_age must be a number"),
    ({"max_age": 10**400}, "max_age must be from 0"),
    ({"queues": ()}, "queues is empty"),
    ({"queues": ("emails", "\x00")}, "is not a queue name"),
    ({"queues": "\u00e9mails"}, "is not a queue name"),
    ({"queues": (name for name in ("emails",))}, "queues must be a list of names, or one name"),
]


@pytest.mark.parametrize(("options", "why"), REFUSED)
def test_options_that_cannot_be_are_refused_when_a_view_or_a_check_is_made(options: dict[str, Any], why: str) -> None:
    for make in (HealthView.as_view, DBQueue, type("Ours", (HealthView,), options).as_view):
        with pytest.raises(ImproperlyConfigured, match=re.escape(why)):
            make(**options)
    with pytest.raises(ImproperlyConfigured, match=re.escape(why)):
        type("Ours", (HealthView,), options).as_view()


def test_a_queue_that_a_deploy_introduces_is_known_before_its_first_message(registry: dict[str, Any]) -> None:
    names = ["by-consumer", "by-setting", "by-row", "by-worker", "by-message", "by-done"]
    assert problems("default", queues=names) == [Problem(name, "unknown") for name in names]
    consumer("by-consumer")(lambda _message: None)
    Queue.objects.create(name="by-row")
    serve("by-worker")
    waiting(queue="by-message")
    done(queue="by-done")
    with override_settings(DBQUEUE={"QUEUES": {"by-setting": {}}}):
        assert problems("default", queues=names, ignore="no-worker") == []


def test_whether_a_queue_is_known_costs_a_query_only_where_there_is_no_trace_of_it() -> None:
    serve("emails")
    with CaptureQueriesContext(connection) as all_queues:
        assert problems("default") == []
    with CaptureQueriesContext(connection) as one:
        assert problems("default", queues="emails") == []
    assert len(one) <= len(all_queues)
