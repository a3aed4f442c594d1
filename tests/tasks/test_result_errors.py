"""What the errors of a result name: the class that was raised, whatever the text of its message looks like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue import Reject, Retry
from django_dbqueue.exceptions import WorkerLost
from django_dbqueue.models import Failure, Message, MessageEvent
from django_dbqueue.statements.events_sql import LOST, REJECT
from django_dbqueue.testing import run_consumers
from tests.process.conftest import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def errors_of(result: Any) -> list[Any]:
    run_consumers("default", on_error="collect")
    result.refresh()
    errors: list[Any] = result.errors
    return errors


def test_the_paths_that_are_written_without_an_exception_are_those_of_the_classes() -> None:
    assert f"{Reject.__module__}.{Reject.__qualname__}" == REJECT
    assert f"{WorkerLost.__module__}.{WorkerLost.__qualname__}" == LOST


@pytest.mark.parametrize(
    ("kind", "path", "begins"),
    [
        ("syntax", "builtins.SyntaxError", "Traceback (most recent call last):\n"),
        ("local", "tests.tasks_app.jobs.raise_one.<locals>.Local", "Traceback (most recent call last):\n"),
        ("group", "builtins.ExceptionGroup", "  + Exception Group Traceback (most recent call last):\n"),
        ("long", "builtins.ValueError", "Traceback (most recent call last):\n"),
        ("host", REJECT, "shop.example: no\n"),
        ("turned away", "tests.tasks_app.jobs.TurnedAway", "KeyError: no\n"),
        ("later", "tests.tasks_app.jobs.Later", "Retry: ValueError: no\n"),
        ("lies", "tests.tasks_app.jobs.Liar", "Traceback (most recent call last):\n"),
    ],
)
def test_an_error_names_the_class_that_was_raised(jobs: Any, kind: str, path: str, begins: str) -> None:
    [error] = errors_of(jobs.raise_one.enqueue(kind))
    assert error.exception_class_path == path
    assert error.traceback.startswith(begins)


def test_a_reason_is_never_imported(jobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    [error] = errors_of(jobs.turn_away.enqueue("tests.tasks_app.never: no"))
    assert error.exception_class is Reject


def rescue(held: Any) -> None:
    wait_until(lambda: Message.objects.rescue("default") == 1, "its lease is over")


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (lambda held: held.nack(error=LookupError("x")), LookupError),
        (lambda held: held.nack(error="shop.example: no"), Retry),
        (lambda held: held.reject("shop.example: no"), Reject),
        (rescue, WorkerLost),
    ],
)
def test_what_ends_a_delivery_by_hand_has_a_class_too(
    jobs: Any, end: Callable[[Any], object], expected: type[BaseException]
) -> None:
    result = jobs.nothing.enqueue()
    [held] = Message.objects.claim(1, lease=0.001)
    end(held)
    result.refresh()
    assert [error.exception_class for error in result.errors] == [expected]


@pytest.mark.parametrize(
    ("kind", "detail", "expected"),
    [
        ("rejected", "shop.example: no", REJECT),
        ("rejected", "a.b: x\n\nTraceback (most recent call last):\n  File \"x\", line 1, in y\na.b: x", REJECT),
        ("rejected", "TypeError: it returned a set", "builtins.TypeError"),
        ("failed", "KeyError: 1\n\nTraceback (most recent call last):\n  File \"x\", line 1, in y\nKeyError: 1",
         "builtins.KeyError"),
        ("failed", "a.No: 1\n\nTraceback (most recent call last):\n  File \"x\", line 1, in y\na.No: 1", "a.No"),
        ("failed", "TimedOut: x ran longer than its timeout of 1 s", "builtins.TimeoutError"),
        ("died", "LeaseOver: the lease ended without an answer", LOST),
        ("interrupted", "Interrupted: the worker was stopped", LOST),
    ],
)  # fmt: skip
def test_of_what_an_earlier_release_recorded_only_a_traceback_is_believed(
    jobs: Any, kind: str, detail: str, expected: str
) -> None:
    result = jobs.nothing.enqueue()
    MessageEvent.objects.create(message_id=int(result.id), queue="default", kind=kind, detail=detail)
    Message.objects.filter(pk=int(result.id)).update(read_count=1)
    result.refresh()
    [error] = result.errors
    assert error.exception_class_path == expected


def test_the_group_of_a_reason_is_that_of_its_words_and_no_exception(jobs: Any) -> None:
    errors_of(jobs.turn_away.enqueue("cancelled: no departure time"))
    held = Message.objects.enqueue({"x": 1}, queue="other")
    Message.objects.claim(1, queue="other")[0].reject("cancelled: no departure time")
    assert held.pk
    assert set(Failure.objects.values_list("exception", "place")) == {("Reject", "cancelled: no departure time")}
