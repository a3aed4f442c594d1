"""The history: each message is in exactly one of the two tables, and nothing is lost on the way (P3)."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError
from django.test import override_settings

from django_dbqueue.lifecycle import archive as archive_module
from django_dbqueue.models import ArchivedMessage, Message
from tests.factories import QUEUE, claim_one, dead, done, held, let_pass, row, rows, stuck, waiting

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


def history() -> list[tuple[int, str]]:
    return list(ArchivedMessage.objects.order_by("pk").values_list("message_id", "outcome"))


def many_done(number: int, **options: Any) -> list[Message]:
    Message.objects.enqueue_many(range(number), queue=QUEUE)
    messages = Message.objects.claim(number, queue=QUEUE)
    assert Message.objects.ack(messages) == []
    return messages


def test_a_message_takes_all_it_was_into_the_history() -> None:
    message = done(payload={"a": "\N{GRINNING FACE}\r\n "}, key="k ", priority=4, headers={"h": 1}, max_reads=9)
    before = row(message)
    assert Message.objects.archive(QUEUE, older_than=0) == 1
    assert rows() == []
    [archived] = ArchivedMessage.objects.values()
    assert archived.pop("message_id") == before["id"]
    assert archived.pop("outcome") == "done"
    assert archived.pop("archived_at") >= before["finished_at"]
    archived.pop("id")
    assert archived == {name: before[name] for name in archived}
    assert set(before) - set(archived) == {
        "id",
        "key_hash",
        "live",
        "status",
        "conn_id",
        "worker_id",
        "available_at",
        "lease_seconds",
    }
    assert ArchivedMessage.objects.get().payload == {"a": "\N{GRINNING FACE}\r\n "}


def test_the_history_tells_done_dropped_and_dead_apart() -> None:
    messages = done(), dead(), waiting()
    Message.objects.ready(QUEUE).drop_all("by me")
    assert Message.objects.all().purge() == 3
    assert sorted(history()) == sorted(zip((m.pk for m in messages), ("done", "dead", "dropped"), strict=True))


def test_archive_takes_only_what_is_done_and_old_enough() -> None:
    old, young = done(), done()
    for make in (dead, held, stuck, waiting):
        let_pass(make(queue=make.__name__), 7200)
    let_pass(old, 7200)
    before = [standing for standing in rows() if standing["id"] != old.pk]
    assert Message.objects.archive(older_than=3600) == 1
    assert history() == [(old.pk, "done")]
    assert rows() == before
    assert row(young)["status"] == "y"


@override_settings(DBQUEUE={"DEFAULTS": {"retention": 500}, "QUEUES": {"short": {"retention": 50}}})
def test_how_old_is_old_enough_is_said_by_the_queues_retention() -> None:
    for queue in ("short", "long"):
        let_pass(done(queue=queue), 100)
    assert Message.objects.archive() == 1
    assert ArchivedMessage.objects.get().queue == "short"


def test_archive_is_of_one_queue_or_of_all() -> None:
    for queue in ("a", "b", "c"):
        done(queue=queue)
    assert Message.objects.archive("b", older_than=0) == 1
    assert Message.objects.archive(older_than=0) == 2


def test_archive_takes_the_oldest_first_of_every_priority_and_more_than_a_batch() -> None:
    messages = many_done(1100)
    done(priority=5)
    assert Message.objects.archive(QUEUE, older_than=0) == 1101
    assert rows() == []
    assert {message_id for message_id, _ in history()} >= {message.pk for message in messages}
    finished = list(ArchivedMessage.objects.filter(priority=0).order_by("pk").values_list("finished_at", flat=True))
    assert finished == sorted(finished)


@pytest.mark.parametrize("limit", [0, 1, 7, 600])
def test_archive_takes_no_more_than_its_limit_over_all_queues(limit: int) -> None:
    many_done(650)
    for number in range(3):
        done(queue=f"other{number}", priority=number)
    assert Message.objects.archive(older_than=0, limit=limit) == limit
    assert len(history()) == limit
    assert Message.objects.count() == 653 - limit


def test_purge_takes_done_and_dead_ones_at_once_and_no_others() -> None:
    ended = {done().pk, dead().pk}
    for make in (held, stuck, waiting):
        make(queue=make.__name__)
    assert Message.objects.all().purge() == 2
    assert {message_id for message_id, _ in history()} == ended
    assert Message.objects.count() == 3
    assert Message.objects.all().purge() == 0


@transactional
@pytest.mark.parametrize("step", ["copy_to_archive", "delete"])
def test_a_failure_at_any_statement_leaves_each_message_where_it_was(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_done(10)
    before = rows()
    real = archive_module.run
    count = {"copy_to_archive": 1, "delete": 2}[step]
    calls = []

    def run(using: str, statement: Any) -> int:
        calls.append(statement)
        result = real(using, statement)
        if len(calls) == count:
            raise DatabaseError("the server went away")
        return result

    monkeypatch.setattr(archive_module, "run", run)
    with pytest.raises(DatabaseError):
        Message.objects.archive(QUEUE, older_than=0)
    assert (rows(), history()) == (before, [])


def test_an_archived_message_leaves_its_key_free_and_its_holder_without_a_claim() -> None:
    done(key="k")
    Message.objects.archive(QUEUE, older_than=0)
    assert waiting(key="k").outcome == "created"
    assert claim_one().key == "k"
