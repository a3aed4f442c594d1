from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import override_settings

from django_dbqueue.models import Message
from tests.process.conftest import start_worker as start_worker

TASKS = {
    "default": {
        "BACKEND": "django_dbqueue.tasks.DBQueueBackend",
        "QUEUES": ["default", "jobs", "kept-short"],
        "OPTIONS": {"max_attempts": 3},
    },
    "other": {"BACKEND": "django_dbqueue.tasks.DBQueueBackend", "QUEUES": []},
}


@pytest.fixture(autouse=True)
def _tasks() -> Iterator[None]:
    """The backends that the tasks of ``tests.tasks_app`` name; as they are imported they must be there."""
    with override_settings(TASKS=TASKS):
        yield


@pytest.fixture
def jobs(_tasks: None) -> Any:
    """The tasks of ``tests.tasks_app``."""
    from tests.tasks_app import jobs

    return jobs


@pytest.fixture
def odd(_tasks: None) -> Any:
    """Tasks that take long, end oddly, or return what is hard to keep."""
    from tests.tasks_app import odd_jobs

    odd_jobs.SEEN.clear()
    odd_jobs.ASIDE.clear()
    return odd_jobs


@pytest.fixture
def lose_the_claim(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Have another claim take a result's message after the task's body, once."""

    def arrange(result: Any) -> None:
        from django_dbqueue.tasks import task_adapter

        kept = task_adapter._kept

        def lose(run: Any, value: object) -> Any:
            monkeypatch.setattr(task_adapter, "_kept", kept)
            Message.objects.filter(pk=int(result.id)).update(claim_token=1)
            return kept(run, value)

        monkeypatch.setattr(task_adapter, "_kept", lose)

    return arrange


@pytest.fixture
def worker_env(worker_env: dict[str, str]) -> dict[str, str]:
    """Workers have the same backends."""
    return worker_env | {"DBQUEUE_TEST_TASKS": json.dumps(TASKS)}
