"""Who waits for whom: producers of one key for each other, and nobody for rows that are none of theirs (P11)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings

from django_dbqueue import DuplicateKey, Envelope, LeaseLost
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.lifecycle import enqueue as enqueue_module
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.heartbeat import extend
from tests.concurrency.contenders import requeue
from tests.concurrency.steps import aside, meet, outcome, waits_for_a_lock
from tests.factories import QUEUE, as_claimed, dead, done, held, held_many, row, waiting
from tests.patience import patience

pytestmark = pytest.mark.django_db(transaction=True)


# The same key at once


@pytest.mark.parametrize("on_conflict", ["ignore", "update", "error"])
@pytest.mark.parametrize("second_many", [False, True])
@pytest.mark.parametrize("first_many", [False, True])
def test_of_two_producers_of_one_key_the_second_waits_and_meets_the_first_ones_message(
    first_many: bool, second_many: bool, on_conflict: Any
) -> None:
    met = meet(producer("first", many=first_many), producer("second", on_conflict, many=second_many), waits=True)
    assert (met.first, Message.objects.count()) == ("created", 1)
    if on_conflict == "error":
        assert isinstance(met.second, DuplicateKey)
    else:
        assert met.second == {"ignore": "ignored", "update": "updated"}[on_conflict]
    assert Message.objects.get().payload == {"update": "second"}.get(on_conflict, "first")


@pytest.mark.parametrize("on_conflict", ["ignore", "update", "error"])
@pytest.mark.parametrize("many", [False, True])
def test_when_the_first_producer_rolls_back_the_second_ones_message_is_created(many: bool, on_conflict: Any) -> None:
    met = meet(producer("first"), producer("second", on_conflict, many=many), then_roll_back=True, waits=True)
    assert met.second == "created"
    assert Message.objects.get().payload == "second"


def test_producers_of_other_keys_do_not_wait() -> None:
    met = meet(lambda: waiting(key="a"), lambda: waiting(key="A"), waits=False)
    assert (met.first.outcome, met.second.outcome) == ("created", "created")


def test_a_requeue_that_takes_the_key_back_makes_an_enqueue_wait_and_meet_it() -> None:
    message = dead(payload="old", key="k")
    met = meet(requeue, lambda: waiting(payload="new", key="k"), waits=True)
    assert (met.first, met.second.outcome, met.second.pk) == (1, "ignored", message.pk)


def test_an_enqueue_of_the_key_makes_a_requeue_wait_and_report_it() -> None:
    message = dead(payload="old", key="k")
    met = meet(lambda: waiting(payload="new", key="k"), Message.objects.filter(pk=message.pk).requeue, waits=True)
    assert met.first.outcome == "created"
    assert (met.second, [conflict.message_id for conflict in met.second.conflicts]) == (0, [message.pk])
    assert row(message)["live"] is None


def producer(payload: str, on_conflict: Any = "ignore", *, many: bool = False) -> Callable[[], str]:
    """Enqueues the key "k" and says what became of it."""

    def one() -> str:
        return str(waiting(payload=payload, key="k", on_conflict=on_conflict).outcome)

    def several() -> str:
        items = [Envelope(payload, key="k")]
        report = Message.objects.enqueue_many(items, queue=QUEUE, on_conflict=on_conflict)
        return next(name for name in ("created", "updated", "ignored") if getattr(report, name))

    return several if many else one


@pytest.mark.parametrize("many", [False, True])
def test_an_update_holds_the_message_that_it_met_until_it_has_written_it(
    many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = held(payload="old", key="k")
    compare = enqueue_module._has_same_content
    with aside() as other:
        acking: list[Future[Any]] = []

        def compare_during_an_ack(*arguments: Any) -> bool:
            acking.append(other.begin(lambda: outcome(message.ack)))
            if connection.vendor != "sqlite":
                assert waits_for_a_lock(other.session, acking[0])
            return compare(*arguments)

        monkeypatch.setattr(enqueue_module, "_has_same_content", compare_during_an_ack)
        assert producer("new", "update", many=many)() == "updated"
        assert isinstance(acking[0].result(patience(60)), LeaseLost)
    assert (row(message)["status"], row(message)["body"]) == ("n", "new")


# Batches and rows that are none of theirs


@pytest.mark.parametrize("on_ack", ["keep", "delete"])
@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("rows", [3, 60], ids=["few", "nearly all rows"])
def test_a_batch_does_not_wait_for_rows_that_are_not_in_it(rows: int, lost: int, on_ack: str) -> None:
    """A server that reads a small table whole to find what the batch names runs into everybody's locks."""
    with override_settings(DBQUEUE={"DEFAULTS": {"on_ack": on_ack}}):
        mine, yours = held_many(rows), held_many(3)
        for message in mine[1 : 1 + lost]:
            Message.objects.get(pk=message.pk).reject("taken away")
        met = meet(lambda: Message.objects.extend(yours, 60), lambda: Message.objects.ack(mine), waits=False)
    assert (met.first, met.second) == ([], mine[1 : 1 + lost])
    assert Message.objects.filter(pk__in=[message.pk for message in mine]).count() == (
        lost if on_ack == "delete" else rows
    )


def test_an_enqueue_of_many_keys_does_not_wait_for_other_keys() -> None:
    message = held(key="elsewhere")
    keys = [f"k{number}" for number in range(20)]
    items = [Envelope(key, key=key) for key in keys]
    Message.objects.enqueue_many(items[:10], queue=QUEUE)
    met = meet(message.ack, lambda: Message.objects.enqueue_many(items, queue=QUEUE), waits=False)
    assert (met.second.created, met.second.ignored) == (10, 10)


def test_the_archive_does_not_wait_for_rows_that_it_does_not_take() -> None:
    holder = held(key="k")
    for _ in range(3):
        done()
    met = meet(holder.extend, lambda: Message.objects.archive(QUEUE, older_than=0), waits=False)
    assert met.second == 3


def test_a_history_of_nearly_all_rows_does_not_wait_for_the_others() -> None:
    mine, holder = held_many(60), held()
    Message.objects.ack(mine)
    met = meet(holder.extend, lambda: Message.objects.archive(QUEUE, older_than=0), waits=False)
    assert met.second == 60


def test_an_enqueue_of_keys_that_nearly_all_stand_does_not_wait_for_the_others() -> None:
    holder = held(key="elsewhere")
    items = [Envelope(number, key=str(number)) for number in range(60)]
    Message.objects.enqueue_many(items, queue=QUEUE)
    met = meet(holder.extend, lambda: Message.objects.enqueue_many(items, queue=QUEUE), waits=False)
    assert met.second.ignored == 60


# The heartbeat


def test_a_heartbeat_waits_for_no_row_that_a_handler_has_locked_and_extends_the_others() -> None:
    messages = held_many(2)
    before = [row(message)["available_at"] for message in messages]
    consumer = Consumer(QUEUE, lambda _message: None)
    deliveries = [
        Delivery(as_claimed(message), session_of("default"), consumer, consumer.resolved(), frozenset())
        for message in messages
    ]

    def lock() -> None:
        Message.objects.select_for_update().get(pk=messages[0].pk)

    met = meet(lock, lambda: extend(DjangoSession("default"), deliveries), waits=False)
    assert met.second is None
    after = [row(message)["available_at"] for message in messages]
    assert after[1] > before[1]
    assert (after[0] == before[0]) is (connection.vendor != "sqlite"), "it was locked"
    assert not any(message.lease_lost for message in messages), "whose row is only locked has lost nothing"
