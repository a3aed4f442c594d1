"""``manage.py queue_send --task``."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from django_dbqueue.models import Message
from django_dbqueue.tasks.compat import HOME
from tests.commands.running import run

pytestmark = pytest.mark.django_db

ADD = "tests.tasks_app.jobs.add"


def test_a_task_is_sent_with_its_arguments(jobs: Any) -> None:
    ended = run(
        "queue_send", "--task", ADD, "--args", "[1]", "--kwargs", '{"b": 2}', "--delay", "60", "--priority", "5"
    )
    assert (ended.code, ended.err) == (0, "")
    message = Message.objects.get(pk=int(ended.out))
    assert message.payload == {"args": [1], "kwargs": {"b": 2}}
    assert (message.queue, message.priority, message.headers) == ("default", 5, {"dbqueue.task": ADD})
    assert message.available_at is not None
    assert timedelta(seconds=30) < message.available_at - timezone.now() < timedelta(seconds=90)


def test_the_queue_may_be_another_of_its_backend(jobs: Any) -> None:
    ended = run("queue_send", "jobs", "--task", ADD, "--args", "[1, 2]", "--json")
    document = json.loads(ended.out)
    assert document == {"id": document["id"], "queue": "jobs", "task": ADD}
    assert Message.objects.get(pk=document["id"]).queue == "jobs"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--task", "no.such.task"], "can't be imported"),
        (["--task", "tests.tasks_app.jobs.not_a_task"], "not a task"),
        (["unknown", "--task", ADD], "'unknown' is not valid"),
        (["--task", ADD, "--args", "{}"], "must be a JSON array"),
        (["--task", ADD, "--kwargs", "[]"], "must be a JSON object"),
        (["--task", ADD, "--args", "[1"], "--args is not JSON"),
        (["--task", ADD, "--key", "k"], "--key can't be used with --task"),
        (["jobs", "{}", "--task", ADD], "payload can't be used with --task"),
        (["jobs", "{}", "--args", "[]"], "name it with --task"),
        ([], "Name the queue"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_named_and_nothing_is_sent(jobs: Any, arguments: list[str], error: str) -> None:
    ended = run("queue_send", *arguments)
    assert ended.code == 2
    assert error in ended.err
    assert not Message.objects.exists()


def test_a_task_of_another_backend_is_neither_run_nor_sent(jobs: Any) -> None:
    with override_settings(TASKS={"default": {"BACKEND": f"{HOME}.backends.immediate.ImmediateBackend"}}):
        ended = run("queue_send", "--task", ADD, "--args", "[1, 2]")
    assert ended.code == 2
    assert f"{ADD} is a task of the backend 'default' in TASKS, which isn't this one" in ended.err
    assert not Message.objects.exists()
