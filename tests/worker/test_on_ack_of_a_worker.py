"""``on_ack="delete"`` by a worker, also where a reply was lost, a claim was, or the child has died."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError

from django_dbqueue import signals
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker import settler as settler_module
from django_dbqueue.worker.aftermath import settle_after
from django_dbqueue.worker.board import Board, SlotState
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import ACK
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.settler import Settler
from tests.factories import QUEUE, as_claimed, claim_one, held, rows, stuck
from tests.lifecycle.conftest import KEPT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("removing")]
transactional = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard() -> Iterator[list[tuple[str, int]]]:
    heard: list[tuple[str, int]] = []
    listeners = {
        name: lambda name=name, **what: heard.append((name, what["message_id"]))
        for name in ("message_done", "lease_lost", "ack_undecided")
    }
    for name, listener in listeners.items():
        getattr(signals, name).connect(listener, weak=False)
    yield heard
    for name, listener in listeners.items():
        getattr(signals, name).disconnect(listener)


def deliver(message: Message, holding: Holding) -> Delivery:
    handler = Consumer(message.queue, print)
    delivery = Delivery(as_claimed(message), session_of("default"), handler, handler.resolved(), frozenset())
    holding.keep(delivery)
    holding.offer(delivery)
    assert holding.take() is delivery
    return delivery


def add(settler: Settler, *messages: Message) -> None:
    for message in messages:
        settler.add(deliver(message, settler._holding), ACK, 0.0)


@transactional
def test_the_worker_acks_each_message_as_its_queue_demands(
    settler: Settler, board: Board, heard: list[tuple[str, int]]
) -> None:
    removed, kept, lost = held(), held(queue=KEPT), held(queue="lost")
    Message.objects.get(pk=lost.pk).release()
    add(settler, removed, kept, lost)
    settler.flush()
    assert [(each["id"], each["status"]) for each in rows()] == [(kept.pk, "y"), (lost.pk, "n")]
    assert set(heard) == {("message_done", removed.pk), ("message_done", kept.pk), ("lease_lost", lost.pk)}
    assert (len(settler), board.counter("done")) == (0, 2)


@transactional
@pytest.mark.parametrize("is_committed", [True, False])
def test_after_a_lost_reply_the_worker_reports_what_it_cannot_know(
    settler: Settler, heard: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    message = held()
    add(settler, message)
    real = settler_module.settle_claims

    def cut(*arguments: Any, **more: Any) -> None:
        if is_committed:
            real(*arguments, **more)
        raise OperationalError("the server went away")

    monkeypatch.setattr(settler_module, "settle_claims", cut)
    with pytest.raises(OperationalError):
        settler.flush()
    assert (len(settler), heard) == (1, [])
    monkeypatch.setattr(settler_module, "settle_claims", real)
    settler.flush()
    assert (len(settler), rows()) == (0, [])
    assert heard == [("ack_undecided" if is_committed else "message_done", message.pk)]


@transactional
@pytest.mark.parametrize("is_mine", [True, False])
def test_where_rows_are_kept_the_history_shows_whose_ack_it_was(
    settler: Settler, heard: list[tuple[str, int]], is_mine: bool
) -> None:
    message = held(queue=KEPT) if is_mine else stuck(queue=KEPT)
    add(settler, message)
    if not is_mine:
        Message.objects.rescue()
    (Message.objects.get(pk=message.pk) if is_mine else claim_one(KEPT)).ack()
    assert Message.objects.archive(KEPT, older_than=0) == 1
    settler.flush()
    assert heard == [("message_done" if is_mine else "lease_lost", message.pk)]


@transactional
def test_a_row_that_was_gone_before_the_ack_was_lost(settler: Settler, heard: list[tuple[str, int]]) -> None:
    message = held()
    Message.objects.get(pk=message.pk).ack()
    add(settler, message)
    settler.flush()
    assert heard == [("lease_lost", message.pk)]


@transactional
def test_what_had_succeeded_when_the_child_died_ends_as_its_queue_demands(board: Board) -> None:
    removed, kept, gone = held(), held(queue=KEPT), held(queue="gone")
    for message in (removed, kept, gone):
        board.mark(board.occupy(message.claim), SlotState.SUCCEEDED)
    gone.ack()
    consumers = {queue: Consumer(queue, print) for queue in (QUEUE, KEPT, "gone")}
    settle_after(DjangoSession("default"), 7, consumers, board, how="SIGKILL")
    assert [(each["id"], each["status"]) for each in rows()] == [(kept.pk, "y")]
    assert board.counter("done") == 2  # of the one that was gone, nothing tells that its ack was this child's


@transactional
def test_what_was_acked_but_not_counted_when_the_child_died_is_counted(board: Board) -> None:
    message = held(queue=KEPT)
    board.mark(board.occupy(message.claim), SlotState.SUCCEEDED)
    message.ack()
    settle_after(DjangoSession("default"), 7, {KEPT: Consumer(KEPT, print)}, board, how="SIGKILL")
    assert board.counter("done") == 1
