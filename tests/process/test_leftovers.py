"""Each handler begins as a request does: in a fresh context, on a session as the project made it, without a past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.models import Message, Queue
from tests.consumers_app.leaving import IN_TRANSACTION, SESSIONS
from tests.process.conftest import WorkerProcess

pytestmark = pytest.mark.django_db(transaction=True)

DEBUGGING = "tests.process.debugging_settings"
FRESH = [settings.LANGUAGE_CODE, settings.TIME_ZONE, "nothing"]


@pytest.fixture
def drain_debugging(start_worker: Callable[..., WorkerProcess]) -> Callable[..., WorkerProcess]:
    def run(*arguments: str) -> WorkerProcess:
        worker = start_worker("--drain", *arguments, DJANGO_SETTINGS_MODULE=DEBUGGING)
        assert worker.ended() == 0, worker.output
        return worker

    return run


def without_queries(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("context", "session")}


@pytest.mark.parametrize("queue", ["test", "transactional"])
def test_what_a_handler_leaves_is_gone_before_the_next(drain_debugging: Callable[..., Any], queue: str) -> None:
    statements = SESSIONS[connection.vendor] if queue == "test" else [IN_TRANSACTION[connection.vendor]]
    Message.objects.enqueue({"do": "look"}, queue=queue)
    for statement in statements:
        Message.objects.enqueue({"do": "leave behind", "statement": statement}, queue=queue)
        Message.objects.enqueue({"do": "look"}, queue=queue)
    worker = drain_debugging()
    first, *later = worker.notes("seen")
    assert first["context"] == FRESH
    seen = dict(zip(statements, map(without_queries, later), strict=True))
    assert seen == dict.fromkeys(seen, without_queries(first))
    assert {each["queries"] for each in later} <= {first["queries"]}
    assert Queue.objects.filter(name__startswith="effect-").count() == 1 + len(later)
    assert not Message.objects.exclude(status="y").exists(), worker.output


def test_the_halves_of_a_list_begin_afresh(drain_debugging: Callable[..., Any]) -> None:
    Message.objects.enqueue_many([{}] * 4, queue="leaving-batches")
    worker = drain_debugging("--queues", "leaving-batches")
    assert [each["context"] for each in worker.notes("seen")] == [FRESH] * 7


def test_coroutines_and_their_threads_begin_afresh(drain_debugging: Callable[..., Any]) -> None:
    Message.objects.enqueue_many([{}] * 12, queue="leaving-async")
    worker = drain_debugging("--queues", "leaving-async", "--concurrency", "1")
    seen = worker.notes("seen")
    assert [each["contexts"] for each in seen] == [[FRESH] * 3] * 12, worker.output
    assert {each["queries"] for each in seen} == {0}


def test_no_thread_of_a_worker_keeps_what_it_sent(drain_debugging: Callable[..., Any]) -> None:
    """With DEBUG, Django keeps 9,000 statements for each connection, parameters included."""
    Message.objects.enqueue_many([{"do": "look"}] * 200, queue="test")
    message = Message.objects.enqueue({"do": "count queries kept"}, queue="test")
    worker = drain_debugging("--batch", "1")
    [counted] = worker.notes("kept", message.pk)
    assert counted["statements"] < 20
