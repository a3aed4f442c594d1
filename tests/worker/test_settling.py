"""What the settler makes of two claims of one message in one child, and of acks that a server undid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_dbqueue import signals
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.databases import server_of
from django_dbqueue.lifecycle.settle_many import settle_claims
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.statements import moves_sql
from django_dbqueue.worker import settler as settler_module
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import ACK, Verdict, attempt
from django_dbqueue.worker.settler import Settler
from tests.factories import QUEUE, as_claimed, claim_one, held, row, rows

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lost() -> Iterator[list[tuple[int, str]]]:
    """Whose claims were told to be lost, and by what."""
    heard: list[tuple[int, str]] = []

    def hear(message_id: int, verb: str, **_: Any) -> None:
        heard.append((message_id, verb))

    signals.lease_lost.connect(hear)
    yield heard
    signals.lease_lost.disconnect(hear)


def begin(settler: Settler, message: Message) -> Delivery:
    """Have a thread take it, as the claim that it is."""
    handler = Consumer(message.queue, print)
    delivery = Delivery(as_claimed(message), session_of("default"), handler, handler.resolved(), frozenset())
    for old in settler._holding.keep(delivery):
        settler.let_go(old)
    settler._holding.offer(delivery)
    assert settler._holding.take() is delivery
    return delivery


def claimed_again(message: Message) -> Message:
    Message.objects.filter(pk=message.pk).requeue()
    return claim_one()


@pytest.mark.parametrize("verdict", [ACK, Verdict("nack", 0.0, "as told"), Verdict("reject", error="not wanted")])
@pytest.mark.parametrize("is_present_first", [True, False])
def test_of_two_claims_of_a_message_that_end_together_only_the_present_one_moves_it(
    settler: Settler, board: Board, lost: list[tuple[int, str]], verdict: Verdict, is_present_first: bool
) -> None:
    stale = held()
    old = begin(settler, stale)
    new = begin(settler, claimed_again(stale))
    for delivery in (new, old) if is_present_first else (old, new):
        settler.add(delivery, verdict, 0.0)
    settler.flush()
    assert (row(stale)["status"], row(stale)["read_count"]) == ("y" if verdict is ACK else "n", 1)
    assert lost == [(stale.pk, "claim")]
    assert len(settler._holding) == len(settler) == 0
    assert sum(board.counter(name) for name in ("done", "failed", "died")) == 1
    assert board.claims_by_state() == Board(10).claims_by_state()


def test_an_ack_that_waits_to_be_written_is_dropped_when_the_message_is_claimed_again(
    settler: Settler, lost: list[tuple[int, str]]
) -> None:
    stale = held()
    settler.add(begin(settler, stale), ACK, 0.0)
    new = begin(settler, claimed_again(stale))
    assert (len(settler), settler.sendable().total()) == (0, 0)
    settler.flush()
    assert row(stale)["status"] == "run"
    assert lost == [(stale.pk, "claim")]
    settler.add(new, ACK, 0.0)
    settler.flush()
    assert row(stale)["status"] == "y"


def test_what_its_handler_settled_before_it_was_claimed_again_is_no_loss(
    settler: Settler, board: Board, lost: list[tuple[int, str]]
) -> None:
    message = held()
    old = begin(settler, message)
    old.message.nack(delay=0)
    begin(settler, claim_one())
    settler.add(old, ACK, 0.0)
    assert (lost, board.counter("failed")) == ([], 1)


def test_a_batch_that_names_a_message_under_two_tokens_returns_which_one_held() -> None:
    stale = held()
    new, other = claimed_again(stale), held()
    change = moves_sql.release(server_of(connections["default"]))
    for order in (1, -1):
        claims = [stale.claim, new.claim, other.claim][::order]
        assert settle_claims(DjangoSession("default"), change, claims) == (
            {new.claim, other.claim} if order == 1 else set()
        )
    assert [each["status"] for each in rows()] == ["n", "n"]


@pytest.mark.parametrize("is_victim", [True, False])
def test_after_a_deadlock_a_claim_that_was_lost_in_between_is_no_reply_that_was_lost(
    settler: Settler, lost: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch, settings: Any, is_victim: bool
) -> None:
    """Where an ack removes the row, only what was known of the reply can tell the two apart."""
    settings.DBQUEUE = {"DEFAULTS": {"on_ack": "delete"}}
    undecided: list[int] = []

    def hear(message_id: int, **_: Any) -> None:
        undecided.append(message_id)

    signals.ack_undecided.connect(hear)
    message = held()
    settler.add(begin(settler, message), ACK, 0.0)
    real = settler_module.settle_claims

    def cut(*_: Any, **__: Any) -> None:
        code = 1213 if is_victim else 2013
        raise OperationalError("as told") from Exception(code, "as told")

    monkeypatch.setattr(settler_module, "settle_claims", cut)
    with pytest.raises(OperationalError):
        settler.flush()
    monkeypatch.setattr(settler_module, "settle_claims", real)
    Message.objects.filter(pk=message.pk).delete()
    settler.flush()
    signals.ack_undecided.disconnect(hear)
    assert (lost, undecided) == (([(message.pk, "ack")], []) if is_victim else ([], [message.pk]))


@pytest.mark.parametrize("release", [Message.release, lambda message: Message.objects.release([message])])
def test_a_handler_that_releases_its_own_message_gets_it_back_after_a_pause_and_not_at_once(
    settler: Settler, release: Any
) -> None:
    delivery = begin(settler, held())
    delivery.consumer = Consumer(QUEUE, release)
    attempt(delivery)
    [stored] = rows()
    assert (stored["status"], stored["read_count"]) == ("n", 0)
    assert 0.9 < (stored["available_at"] - stored["claimed_at"]).total_seconds() < 60
    assert stored["due_at"] <= stored["claimed_at"]


def test_a_release_by_who_runs_no_worker_has_no_pause() -> None:
    held().release()
    assert claim_one().read_count == 1
