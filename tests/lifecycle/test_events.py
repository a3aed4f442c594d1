"""What happened to a message beside the ordinary is a row, written with the move; the ordinary costs no statement."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from django_dbqueue import LeaseLost
from django_dbqueue.databases import server_of
from django_dbqueue.lifecycle import expired_rows
from django_dbqueue.models import Message, MessageEvent, Worker
from django_dbqueue.models.fields import DbNow
from django_dbqueue.operations.mover import move
from django_dbqueue.operations.seen import Seen
from django_dbqueue.operations.verbs import VERBS as OPERATORS
from django_dbqueue.operations.verbs import Order
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements.events_sql import ACTOR_LENGTH, DETAIL_LENGTH, storable
from tests.factories import QUEUE, claim_one, dead, done, held, held_many, let_pass, row, waiting, written_by_sql
from tests.lifecycle.losing import LOST_BY, VERBS, rescued
from tests.lifecycle.moves import MOVES, one
from tests.lifecycle.rollback import rolled_back

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)
RECORDED = ("kind", "actor", "detail")
STRANGE = "🐇 naïve\u0000 \udcff 'quoted' <script>%s</script>" + "🐇" * 4_000


def events_of(message: Message) -> list[tuple[Any, ...]]:
    return list(MessageEvent.objects.filter(message_id=message.pk).order_by("id").values_list(*RECORDED))


# Each move that is not ordinary


@pytest.mark.parametrize("name", MOVES)
def test_a_move_that_is_not_ordinary_leaves_one_event(name: str) -> None:
    make, move, expected = MOVES[name]
    message = make()
    before = MessageEvent.objects.filter(message_id=message.pk).count()
    was = row(message)
    move(message)
    *earlier, event = MessageEvent.objects.filter(message_id=message.pk).order_by("id")
    assert len(earlier) == before
    assert tuple(getattr(event, field) for field in RECORDED) == expected
    for field in ("queue", "read_count", "claimed_at", "conn_id"):
        assert getattr(event, field) == was[field]
    assert event.at >= was["created_at"]


@pytest.mark.parametrize("name", MOVES)
def test_a_move_that_is_rolled_back_leaves_none(name: str) -> None:
    make, move, _ = MOVES[name]
    message = make()
    before, was = events_of(message), row(message)
    with rolled_back():
        move(message)
    assert (events_of(message), row(message)) == (before, was)


def test_several_moves_of_one_statement_leave_an_event_each() -> None:
    messages = held_many(5)
    assert Message.objects.nack(messages, error="no") == []
    assert [events_of(message) for message in messages] == [[("failed", None, "no")]] * 5


def test_sending_again_is_an_event_of_the_message_that_is_repeated() -> None:
    message = done()
    one(message).send_again(by="ann")
    new = Message.objects.latest("id")
    assert events_of(message) == [("resent", "ann", f"#{new.pk}")]
    assert events_of(new) == []


def test_a_row_without_a_read_left_that_a_claim_finds_leaves_an_event() -> None:
    message = written_by_sql("1", read_count=2, max_reads=2)
    assert Message.objects.claim(queue=QUEUE) == []
    [(kind, actor, detail)] = events_of(message)
    assert (kind, actor) == ("died", None)
    assert detail.startswith("ReadsSpent: ")


def test_an_event_names_the_worker_of_the_claim() -> None:
    worker = Worker.objects.create(id=7, host="host-é", pid=42, queues=QUEUE, threads=1)
    message = held()
    one(message).update(worker_id=worker.pk)
    message.nack()
    assert MessageEvent.objects.get(message_id=message.pk).worker == "host-é:42"


# Losers


@pytest.mark.parametrize("lose", LOST_BY, ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("verb", ["nack", "reject"])
def test_whoever_lost_the_claim_leaves_no_event(verb: str, lose: Callable[[Message], None]) -> None:
    message = held(key="k")
    lose(message)
    before = MessageEvent.objects.count()
    settle_one, settle_many = VERBS[verb]
    with pytest.raises(LeaseLost):
        settle_one(message)
    assert settle_many([message]) == [message]
    assert MessageEvent.objects.count() == before


def test_of_a_batch_only_those_that_were_moved_leave_an_event() -> None:
    lost, *kept = held_many(4)
    rescued(lost)
    before = events_of(lost)
    assert Message.objects.nack([lost, *kept], error="no") == [lost]
    assert events_of(lost) == before
    assert [events_of(message) for message in kept] == [[("failed", None, "no")]] * 3


def test_a_requeue_whose_key_is_in_use_leaves_no_event() -> None:
    message = dead(key="k")
    waiting(key="k")
    before = events_of(message)
    assert one(message).requeue() == 0
    assert events_of(message) == before


def test_an_operator_who_saw_an_older_state_leaves_no_event() -> None:
    message = dead()
    message.refresh_from_db()
    seen = Seen.of(message)
    one(message).requeue()
    before = MessageEvent.objects.count()
    assert claim_one() == message
    assert not move(Message, DjangoSession("default"), Order(OPERATORS["requeue"], None), [seen]).moved
    assert MessageEvent.objects.count() == before


# The ordinary


def test_the_ordinary_leaves_no_event_and_costs_what_it_did() -> None:
    waiting()
    message = claim_one()
    with CaptureQueriesContext(connection) as queries:
        message.extend(5)
        message.ack()
    assert len(queries) == 2
    message = held()
    with CaptureQueriesContext(connection) as queries:
        message.release()
    assert len(queries) == 1
    assert not MessageEvent.objects.exists()


# What can't be written must not stand in the way of a move


def test_strange_text_is_stored_as_it_can_be() -> None:
    message = held()
    message.nack(error=STRANGE)
    [(_, _, detail)] = events_of(message)
    assert detail == storable(STRANGE, DETAIL_LENGTH)
    assert len(detail) == DETAIL_LENGTH
    assert detail.startswith("🐇 naïve\\0 \\udcff 'quoted' <script>%s</script>")
    claim_one(lease=60)
    one(message).requeue(by=STRANGE)
    *_, (_, actor, _) = events_of(message)
    assert len(actor) == ACTOR_LENGTH


def test_the_worker_of_the_longest_name_fits() -> None:
    worker = Worker.objects.create(id=8, host="h" * 255, pid=2**62, queues=QUEUE, threads=1)
    message = held()
    one(message).update(worker_id=worker.pk)
    message.nack()
    assert MessageEvent.objects.get(message_id=message.pk).worker == f"{'h' * 255}:{2**62}"


def test_only_what_precedes_the_traceback_is_kept() -> None:
    def fail() -> None:
        raise RuntimeError("first\nsecond")

    message = held()
    try:
        fail()
    except RuntimeError as error:
        message.nack(error=error)
    assert events_of(message) == [("failed", None, "RuntimeError: first\nsecond")]
    assert "Traceback" in (row(message)["error"] or "")


@transactional
def test_an_event_that_cannot_be_written_undoes_the_move(monkeypatch: pytest.MonkeyPatch) -> None:
    message = held()
    was = row(message)
    monkeypatch.setattr(type(server_of(connection)), "event", "no_such_table")
    with pytest.raises(DatabaseError):
        message.nack(error="no")
    assert row(message) == was
    monkeypatch.undo()
    with transaction.atomic():
        monkeypatch.setattr(type(server_of(connection)), "event", "no_such_table")
        with suppress(DatabaseError):
            message.nack(error="no")
        monkeypatch.undo()
        assert row(message) == was, "the caller's transaction goes on"
        message.nack(error="no")
    assert events_of(message) == [("failed", None, "no")]


# Forgetting


def test_events_are_forgotten_at_their_age_and_a_bounded_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired_rows, "BATCH", 2)
    messages = held_many(7)
    Message.objects.nack(messages)
    old = [message.pk for message in messages[:5]]
    MessageEvent.objects.filter(message_id__in=old).update(at=DbNow() - timedelta(days=31))
    month = 30 * 86_400.0
    assert expired_rows.forget_events(DjangoSession("default"), age=month, limit=3) == 3
    assert MessageEvent.objects.count() == 4
    assert expired_rows.forget_events(DjangoSession("default"), age=month, limit=3) == 2
    assert expired_rows.forget_events(DjangoSession("default"), age=month, limit=3) == 0
    assert set(MessageEvent.objects.values_list("message_id", flat=True)) == {m.pk for m in messages[5:]}


def test_events_of_a_message_stay_when_it_is_archived() -> None:
    message = held()
    message.nack()
    let_pass(message, 10)
    claim_one().ack()
    assert Message.objects.archive(QUEUE, older_than=0) == 1
    assert events_of(message) == [("failed", None, None)]
