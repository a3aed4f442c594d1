"""A cancel ends what has not ended: dead at once, by whom and why, and its holder has lost it (P24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from django_dbqueue import Envelope, InvalidMessage, LeaseLost, NotCancelled, Suspended, flow
from django_dbqueue.models import Event, Flow, Message, MessageEvent, Worker
from django_dbqueue.statements.events_sql import CANCELLED
from tests.factories import QUEUE, behind, claim_one, claimed, dead, done, held, row, stuck, waiting
from tests.lifecycle.rollback import rolled_back

pytestmark = pytest.mark.django_db

WHY = "Cancelled by ann: the wrong file"


def cancel(message: Message) -> None:
    Message.objects.cancel(message.pk, reason="the wrong file", by="ann")


def delayed() -> Message:
    return waiting(delay=3_600)


def waiting_for_a_retry() -> Message:
    message = held()
    message.nack(delay=60, error="not yet")
    return message


@pytest.mark.parametrize("make", [waiting, delayed, waiting_for_a_retry, behind, held, stuck])
def test_whatever_it_waits_for_it_is_dead_at_once_with_who_and_why(make: Callable[[], Message]) -> None:
    message = make()
    before = row(message)
    cancel(message)
    after = row(message)
    assert (Message.objects.get(pk=message.pk).is_dead, after["error"]) == (True, WHY)
    assert (after["worker_id"], after["conn_id"], after["live"]) == (None, None, None)
    assert (after["claim_token"], after["read_count"]) == (before["claim_token"], before["read_count"])
    [event] = MessageEvent.objects.filter(message_id=message.pk, kind=CANCELLED)
    assert (event.actor, event.detail, event.exception) == (
        "ann", WHY, "django_dbqueue.exceptions.MessageCancelled",
    )  # fmt: skip


def test_without_a_name_it_keeps_the_reason() -> None:
    message = waiting()
    Message.objects.cancel(message.pk, reason="too late")
    assert row(message)["error"] == "Cancelled: too late"
    [event] = MessageEvent.objects.filter(message_id=message.pk)
    assert event.actor is None


@pytest.mark.parametrize(("make", "how"), [(done, "is done already"), (dead, "is dead already")])
def test_one_that_has_ended_is_refused_with_a_sentence_and_stays_as_it_is(
    make: Callable[[], Message], how: str
) -> None:
    message = make()
    before = row(message)
    with pytest.raises(NotCancelled, match=f"message {message.pk} {how}") as refused:
        cancel(message)
    assert refused.value.message_id == message.pk
    assert row(message) == before
    assert Message.objects.all().cancel_all("the wrong file") == 0
    Message.objects.filter(pk=message.pk).purge()
    with pytest.raises(NotCancelled, match="is not there: it may have been archived"):
        cancel(message)


@pytest.mark.parametrize("wrong", [0, -1, 2**63, "7", 1.0, None, True])
def test_what_is_not_an_id_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidMessage, match="message_id must be a whole number"):
        Message.objects.cancel(wrong, reason="r")


def test_its_holder_can_not_settle_it_any_more() -> None:
    message = held()
    cancel(message)
    before = row(message)
    for verb in ("ack", "nack", "reject", "release", "extend"):
        with pytest.raises(LeaseLost):
            getattr(message, verb)()
    with pytest.raises(LeaseLost), message.transaction():
        waiting(payload="of a transaction")
    assert row(message) == before
    assert claimed() == []


def test_it_joins_the_callers_transaction() -> None:
    message = held()
    with rolled_back():
        cancel(message)
    message.ack()
    assert row(message)["status"] == "y"


def test_its_key_is_free_and_a_requeue_brings_it_back() -> None:
    message = waiting(key="k")
    cancel(message)
    second = waiting(key="k")
    assert second.outcome == "created"
    cancel(second)
    assert Message.objects.filter(pk=message.pk).requeue() == 1
    assert claim_one().pk == message.pk


def test_its_group_goes_on() -> None:
    first = held(group="g")
    second, third = waiting(group="g"), waiting(group="g")
    assert claimed() == []
    cancel(second)
    cancel(first)
    assert claim_one().pk == third.pk


def test_of_a_flow_it_is_a_dead_one() -> None:
    with flow("import") as f:
        first = f.enqueue(Envelope(1), queue=QUEUE)
        then = f.enqueue(Envelope(2), queue=QUEUE, after=first)
        f.enqueue(Envelope(3), queue=QUEUE, after=first, when="finished")
    cancel(claim_one())
    assert claim_one().payload == 3
    assert Message.objects.waiting(QUEUE).get().pk == then.first
    Message.objects.cancel(then.first, reason="parked")
    assert Message.objects.get(pk=then.first).is_dead


def test_one_that_waits_for_an_event_is_not_woken_by_it() -> None:
    message = held()
    with pytest.raises(Suspended):
        message.wait_for("arrival")
    cancel(message)
    Event.objects.emit("arrival", 1)
    assert Message.objects.get(pk=message.pk).is_dead


def test_all_of_a_selection_go_and_what_has_ended_is_left() -> None:
    messages = [waiting(), delayed(), held(queue="other")]
    over = [done(queue="third"), dead(queue="fourth")]
    assert Message.objects.all().cancel_all("the wrong files", by="ann") == 3
    assert {row(each)["error"] for each in messages} == {"Cancelled by ann: the wrong files"}
    assert [row(each)["error"] for each in over] == [None, "unwanted"]


# The call


def with_worker(message: Message, number: int = 7) -> Worker:
    worker = Worker.objects.create(id=number, host="h", pid=1, queues=QUEUE, threads=1)
    Message.objects.filter(pk=message.pk).update(worker_id=worker.pk)
    return worker


def is_called(worker: Worker) -> bool:
    return Worker.objects.get(pk=worker.pk).is_called


def test_the_worker_that_runs_it_is_called_and_no_other() -> None:
    message, other = held(), held(queue="other")
    worker, of_other = with_worker(message), with_worker(other, 8)
    Message.objects.cancel(waiting(queue="third").pk, reason="r")
    assert not is_called(worker)
    cancel(message)
    assert (is_called(worker), is_called(of_other)) == (True, False)
    Message.objects.filter(pk=other.pk).drop_all("not interrupted")
    assert not is_called(of_other)


@pytest.mark.django_db(transaction=True)
def test_the_call_waits_for_the_commit_so_that_no_beat_waits_for_it() -> None:
    message = held()
    worker = with_worker(message)
    with transaction.atomic():
        cancel(message)
        assert not is_called(worker)
    assert is_called(worker)


def test_a_flow_that_is_cancelled_calls_those_that_run_its_messages() -> None:
    with flow("import") as f:
        f.enqueue(Envelope(1), queue=QUEUE)
    message = claim_one()
    worker = with_worker(message)
    assert Flow.objects.cancel(f.id, reason="the wrong file", by="ann") == 1
    assert is_called(worker)
    assert row(message)["status"] == "y"
