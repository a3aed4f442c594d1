"""What the system checks say of a backend and its options."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core import checks as django_checks
from django.test import override_settings

from django_dbqueue.checks import blocking_errors, check_project
from django_dbqueue.consumers import registry as consumer_registry
from django_dbqueue.tasks import DBQueueBackend, task_options
from django_dbqueue.tasks.backend_checks import check_backend
from django_dbqueue.tasks.compat import InvalidTask

pytestmark = pytest.mark.django_db
OURS = "django_dbqueue.tasks.DBQueueBackend"


def checked(**options: Any) -> list[str]:
    made: Any = DBQueueBackend("default", options)
    with override_settings(TASKS={"default": {"BACKEND": OURS, **options}}):
        return [str(each.id) for each in check_backend(made)]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_attempts": -1}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"lease": 0}, "lease"),
        ({"backoff": "soon"}, "backoff"),
        ({"keep_results": -1}, "keep_results"),
        ({"transactional": 1}, "transactional"),
        ({"group": 17}, "group must be a string"),
        ({"group": ""}, "group's name has 0 characters"),
        ({"group": "*"}, "no group can have this name"),
        ({"retries": 3}, "no option 'retries'"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named(options: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidTask, match=error):
        task_options(**options)
    assert checked(OPTIONS=options) == ["dbqueue.E021"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (None, r"must be a dict of options, not None\."),
        (["max_attempts"], r"must be a dict of options, not \['max_attempts'\]\."),
        ({"max_attempts": [5]}, r"max_attempts must be a whole number .*, not \[5\]\."),
        ({"group": {}}, "The group must be a string or None, not dict"),
    ],
    ids=str,
)
def test_options_that_are_no_dict_or_have_a_list_in_it_are_named_by_the_check_and_by_enqueue(
    jobs: Any, options: Any, error: str
) -> None:
    made: Any = DBQueueBackend("default", {"OPTIONS": options})
    [message] = check_backend(made)
    assert message.id == "dbqueue.E021"
    assert re.search(error, str(message.msg))
    with (
        override_settings(TASKS={"default": {"BACKEND": OURS, "QUEUES": [], "OPTIONS": options}}),
        pytest.raises(InvalidTask, match=error),
    ):
        jobs.add.enqueue(1, 2)


class Array:
    """As numpy and pandas have them."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    def __repr__(self) -> str:
        return "Array()"


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {"DEFAULTS": None},
        {"QUEUES": {"default": None}},
        {"QUEUES": []},
        {"DEFAULTS": {"group": Array()}},
        {"SCHEDULES": None},
    ],
    ids=ascii,
)
def test_settings_that_cannot_be_are_reported_where_there_are_tasks_too(jobs: Any, wrong: Any) -> None:
    with override_settings(DBQUEUE=wrong):
        found = [each.id for each in django_checks.run_checks() if each.is_serious()]
        assert found == [each.id for each in check_project() if each.is_serious()]
    assert found in (["dbqueue.E001"], ["dbqueue.E003"])


def test_checks_of_the_settings(registry: dict[str, Any]) -> None:
    consumer_registry.consumer("taken")(print)
    assert checked(QUEUES=["free"]) == []
    assert checked(QUEUES=["taken"]) == ["dbqueue.E020"]
    assert checked(QUEUES=["no queue"]) == ["dbqueue.E022"]
    assert checked(QUEUES="free") == ["dbqueue.E022"]
    assert checked(QUEUES=[5, "free"]) == ["dbqueue.E022"]
    assert checked(QUEUES=["dbqueue.operations", "free"]) == ["dbqueue.E026"]
    with override_settings(DBQUEUE={"OPERATIONS_QUEUE": "default"}):
        assert checked(QUEUES=[]) == ["dbqueue.E026"]
    with override_settings(DBQUEUE={"QUEUES": {"free": {"on_ack": "delete"}}}):
        assert checked(QUEUES=["free"]) == ["dbqueue.W020"]
        assert checked(QUEUES=["free"], OPTIONS={"keep_results": 0}) == []


@override_settings(
    TASKS={
        "default": {"BACKEND": "django_dbqueue.tasks.DbQueueBackend"},
        "none": {},
        "no": None,
        "ours": {"BACKEND": OURS},
    }
)
def test_a_backend_that_cannot_be_imported_is_an_error_that_no_worker_starts_with() -> None:
    wrong = [each for each in blocking_errors("default") if each.id == "dbqueue.E023"]
    assert [str(each.msg).partition(":")[0] for each in wrong] == [
        "TASKS['default']['BACKEND'] can't be imported",
        "TASKS['none']['BACKEND'] can't be imported",
        "TASKS['no']['BACKEND'] can't be imported",
    ]
    assert OURS in str(wrong[0].hint)


@override_settings(TASKS={"default": {"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "OPTIONS": {"lease": -1}}})
def test_django_asks_the_checks() -> None:
    assert "dbqueue.E021" in [message.id for message in django_checks.run_checks()]
