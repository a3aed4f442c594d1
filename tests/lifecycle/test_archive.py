"""The history: each message is in exactly one of the two tables, and nothing is lost on the way (P3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import override_settings

from django_dbqueue import Envelope, InvalidMessage
from django_dbqueue.databases import Statement
from django_dbqueue.lifecycle import archive as archive_module
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker import maintenance as maintenance_module
from django_dbqueue.worker.maintenance import Maintenance
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
    message = done(
        payload={"a": "\N{GRINNING FACE}\r\n "}, key="k ", priority=4, headers={"h": 1}, max_reads=9, group="g "
    )
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
        "lane",
        "lease_seconds",
    }
    assert ArchivedMessage.objects.get().payload == {"a": "\N{GRINNING FACE}\r\n "}


def test_the_history_distinguishes_done_dropped_and_dead() -> None:
    messages = done(), dead(), waiting()
    Message.objects.ready(QUEUE).drop_all("by me")
    assert Message.objects.all().purge() == 3
    assert sorted(history()) == sorted(zip((m.pk for m in messages), ("done", "dead", "dropped"), strict=True))


def test_archive_takes_only_what_is_done_and_old_enough() -> None:
    old, young = done(), done()
    for make in (dead, held, stuck, waiting):
        let_pass(make(queue=make.__name__), 7200)
    let_pass(old, 7200)
    before = [each for each in rows() if each["id"] != old.pk]
    assert Message.objects.archive(older_than=3600) == 1
    assert history() == [(old.pk, "done")]
    assert rows() == before
    assert row(young)["status"] == "y"


@override_settings(DBQUEUE={"DEFAULTS": {"retention": 500}, "QUEUES": {"short": {"retention": 50}}})
def test_how_old_is_old_enough_is_set_by_the_queues_retention() -> None:
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
    many_done(1)
    assert Message.objects.archive(QUEUE, older_than=0) == 1  # the mutex stands, so that two statements are left
    many_done(10)
    before = rows(), history()
    real = DjangoSession.run
    count = {"copy_to_archive": 1, "delete": 2}[step]
    calls = []

    def run(session: DjangoSession, statement: Statement) -> int:
        result = real(session, statement)
        if "BEGIN" not in statement.sql:
            calls.append(statement)
        if len(calls) == count:
            raise DatabaseError("the server went away")
        return result

    monkeypatch.setattr(DjangoSession, "run", run)
    with pytest.raises(DatabaseError):
        Message.objects.archive(QUEUE, older_than=0)
    assert len(calls) == count
    assert (rows(), history()) == before


# The dead


def ids_of(messages: Iterable[Message]) -> set[int]:
    return {message.pk for message in messages}


def archived_ids() -> set[int]:
    return {message_id for message_id, _ in history()}


@override_settings(DBQUEUE={"QUEUES": {"mortal": {"dead_retention": 500}, "long": {"dead_retention": 5000}}})
def test_dead_ones_go_after_their_queues_dead_retention_and_by_default_never() -> None:
    buried, too_young, of_long, immortal = (dead(queue=q) for q in ("mortal", "mortal", "long", "other"))
    for message in (buried, of_long, immortal):
        let_pass(message, 1000)
    for make in (held, stuck, waiting):
        let_pass(make(queue="mortal"), 1000)
    assert Message.objects.archive() == 1
    assert history() == [(buried.pk, "dead")]
    assert Message.objects.archive("mortal", older_than=0) == 0, "older_than is said of done ones"
    assert ids_of(Message.objects.dead()) == ids_of((too_young, of_long, immortal))


def many_dead(number: int, **options: Any) -> list[Message]:
    Message.objects.enqueue_many([Envelope(n, **options) for n in range(number)], queue=QUEUE)
    messages = Message.objects.claim(number, queue=QUEUE)
    assert Message.objects.reject(messages, "unwanted") == []
    return messages


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "BATCH", 4)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("most_rows", [1, 4, 7, 1000, None])
def test_dead_ones_are_found_wherever_they_stand_a_bounded_part_at_a_time(most_rows: int | None) -> None:
    """They stand by id, whatever their age: every third of two priorities is old."""
    messages = [*many_dead(21), *many_dead(10, priority=5)]
    old = messages[::3]
    for message in old:
        let_pass(message, 1000)
    walk, turns = archive_module.DeadWalk(DjangoSession("default"), QUEUE), 0
    while len(history()) < len(old):
        seen = len(history())
        assert walk.archive(age=500, most_rows=most_rows) == len(history()) - seen
        turns += 1
        assert most_rows is None or len(history()) - seen <= max(4, most_rows + 3)
    assert archived_ids() == ids_of(old)
    assert turns == {1: 8, 4: 7, 7: 4, 1000: 1, None: 1}[most_rows]


@pytest.mark.usefixtures("small_windows")
def test_after_the_end_the_walk_starts_over() -> None:
    messages = many_dead(10)
    walk = archive_module.DeadWalk(DjangoSession("default"), QUEUE)
    assert walk.archive(age=500, most_rows=8) == 0
    let_pass(messages[0], 1000)
    assert walk.archive(age=500, most_rows=8) == 0, "it goes on behind the eighth"
    assert walk.archive(age=500, most_rows=8) == 1
    assert archived_ids() == {messages[0].pk}


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True])
def test_a_limit_that_is_none_is_refused_and_moves_nothing(limit: Any) -> None:
    done()
    with pytest.raises(InvalidMessage, match="limit must be a whole number"):
        Message.objects.archive(older_than=0, limit=limit)
    assert history() == []


@pytest.mark.usefixtures("small_windows")
@override_settings(DBQUEUE={"DEFAULTS": {"dead_retention": 0}})
@pytest.mark.parametrize("limit", [0, 1, 3, 4, 5, 11, 40])
def test_the_limit_holds_for_done_and_dead_ones_together(limit: int) -> None:
    many_dead(10)
    many_dead(3, priority=2)
    many_done(3)
    assert Message.objects.archive(older_than=0, limit=limit) == min(limit, 16)
    assert len(history()) == min(limit, 16)
    assert Message.objects.archive(older_than=0) == max(0, 16 - limit)


def test_one_that_was_requeued_and_died_again_in_between_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    message = dead()
    let_pass(message, 1000)
    real = DjangoSession.fetch

    def fetch(session: DjangoSession, statement: Statement) -> list[tuple[Any, ...]]:
        found = real(session, statement)
        if "finished_at <=" in statement.sql and "FOR UPDATE" not in statement.sql and not moved:
            moved.append(Message.objects.dead(QUEUE).requeue())
            claim_one().reject("again")
        return found

    moved: list[int] = []
    monkeypatch.setattr(DjangoSession, "fetch", fetch)
    assert archive_module.DeadWalk(DjangoSession("default"), QUEUE).archive(age=500) == 0
    assert (moved, history()) == ([1], [])


@override_settings(DBQUEUE={"DEFAULTS": {"retention": 500, "dead_retention": 500}})
def test_a_workers_maintenance_moves_both_kinds_by_age() -> None:
    old, young = (done(), dead()), (done(), dead())
    for message in old:
        let_pass(message, 1000)
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    maintenance.run(0.0)
    assert history() == []
    maintenance.run(61.0)
    assert sorted(history()) == sorted([(old[0].pk, "done"), (old[1].pk, "dead")])
    assert ids_of(Message.objects.all()) == ids_of(young)


@override_settings(DBQUEUE={"DEFAULTS": {"retention": 0}})
def test_where_more_is_left_maintenance_comes_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance_module, "ARCHIVE_AT_ONCE", 10)
    many_done(25)
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    maintenance.run(0.0)
    for now, moved in ((61.0, 10), (61.5, 10), (90.0, 20), (119.0, 25), (121.0, 25)):
        maintenance.run(now)
        assert len(history()) == moved
    done()
    maintenance.run(170.0)
    assert len(history()) == 25, "it had moved all, and comes again in a minute"


def test_an_archived_message_leaves_its_key_free_and_its_holder_without_a_claim() -> None:
    done(key="k")
    Message.objects.archive(QUEUE, older_than=0)
    assert waiting(key="k").outcome == "created"
    assert claim_one().key == "k"
