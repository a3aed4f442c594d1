"""What the worker says: at a wrong option, at a wrong place, and in its log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from django_dbqueue.models import Message

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--processes", "0"], "'0' is not a whole number from 1 to 512"),
        (["--concurrency", "0"], "'0' is not a whole number from 1 to 10000"),
        (["--concurrency", "many"], "'many' is not a whole number from 1 to 10000"),
        (["--threads", "many"], "'many' is not a whole number"),
        (["--grace=-1"], "is not a number of seconds"),
        (["--grace", "nan"], "not a number of seconds"),
        (["--queues", "tset"], "None of the queues 'tset' has a consumer"),
        (["--queues", "a b"], "is not a queue name"),
        (["--database", "defalt"], "Did you mean 'default'?"),
        (["--log-format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_a_wrong_option_is_refused_by_name(start_worker: Callable[..., Any], arguments: list[str], error: str) -> None:
    worker = start_worker(*arguments)
    assert worker.ended() in {1, 2}
    assert error in worker.output
    assert "Traceback" not in worker.output


@contextmanager
def not_applied(*names: str) -> Iterator[None]:
    recorder = MigrationRecorder(connection)
    for name in names:
        recorder.record_unapplied("django_dbqueue", name)
    try:
        yield
    finally:
        for name in names:
            recorder.record_applied("django_dbqueue", name)


def test_a_worker_refuses_tables_that_are_older_than_it_is(start_worker: Callable[..., Any]) -> None:
    with not_applied("0001_squashed", "0016_event_exception"):
        worker = start_worker("--drain")
        assert worker.ended() == 1
    assert "migrations are not applied (0001_squashed)" in worker.output
    assert "migrate django_dbqueue 0016_event_exception --database default  # with the version that" in worker.output
    assert "Traceback" not in worker.output


def test_a_worker_runs_where_all_that_a_squashed_migration_replaces_was_applied(drain: Callable[..., Any]) -> None:
    Message.objects.enqueue({"do": "ok"}, queue="test")
    with not_applied("0001_squashed"):
        drain()
    assert Message.objects.done("test").count() == 1


def test_a_worker_that_may_not_read_what_was_applied_works(drain: Callable[..., Any]) -> None:
    message = Message.objects.enqueue({"do": "ok"}, queue="test")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_migrations RENAME TO hidden")
    try:
        drain()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE hidden RENAME TO django_migrations")
    assert Message.objects.done("test").get().pk == message.pk


def test_the_json_log_is_one_object_a_line_and_never_has_the_payload(drain: Callable[..., Any]) -> None:
    message = Message.objects.enqueue({"do": "fail", "text": "broken", "secret": "s3cr3t"}, queue="test")
    worker = drain("--log-format", "json", "-v", "2")
    lines = [json.loads(line) for line in worker.output.splitlines()]
    assert {"time", "level", "event", "text"} <= lines[0].keys()
    failed = [line for line in lines if line["event"] == "failed"]
    assert [line["message_id"] for line in failed] == [message.pk] * 2
    assert failed[0]["error"].endswith("ValueError: broken")
    assert [line["message_id"] for line in lines if line["event"] == "died"] == [message.pk]
    assert lines[-1]["event"] == "ended"
    assert (lines[-1]["failed"], lines[-1]["died"]) == (2, 1)
    assert "s3cr3t" not in worker.output


def test_with_verbosity_2_there_is_a_line_when_a_handler_begins_and_one_when_it_has_ended(
    drain: Callable[..., Any],
) -> None:
    deeds = ({"do": "ok"}, {"do": "fail", "text": "broken", "times": 1}, {"do": "settle", "verb": "ack"})
    ok, fails, settles = (Message.objects.enqueue(deed, queue="test").pk for deed in deeds)
    coroutine = Message.objects.enqueue({"seconds": 0}, queue="async").pk
    output = drain("--log-format", "json", "-v", "2").output
    lines = [json.loads(line) for line in output.splitlines()]
    about = {
        id_: [(line["event"], line.get("attempt")) for line in lines if line.get("message_id") == id_]
        for id_ in (ok, fails, settles, coroutine)
    }
    assert about[ok] == about[coroutine] == about[settles] == [("begun", 1), ("done", None)]
    assert about[fails] == [("begun", 1), ("failed", 1), ("begun", 2), ("done", None)]
    begun = next(line["text"] for line in lines if line["event"] == "begun" and line["message_id"] == ok)
    assert begun == f"message {ok} of test begun at attempt 1 by tests.consumers_app.queue_consumers.do_as_ordered"
    assert [line for line in lines if line["event"] == "failed" and "ValueError: broken" in line["traceback"]]


def test_without_verbosity_2_what_goes_well_is_not_logged(drain: Callable[..., Any]) -> None:
    message = Message.objects.enqueue({"do": "ok"}, queue="test")
    assert f"message {message.pk}" not in drain().output


def test_a_row_whose_reads_were_spent_by_hand_is_buried_and_not_delivered(drain: Callable[..., Any]) -> None:
    spent = Message.objects.enqueue({"do": "ok"}, queue="test", max_reads=2)
    Message.objects.filter(pk=spent.pk).update(read_count=2)
    ok = Message.objects.enqueue({"do": "ok"}, queue="test")
    worker = drain()
    row = Message.objects.get(pk=spent.pk)
    assert row.is_dead
    assert row.read_count == 2
    assert worker.notes("begin", spent.pk) == []
    assert Message.objects.get(pk=ok.pk).status == "y"
