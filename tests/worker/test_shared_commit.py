"""Acks in the transaction of the next claim: both are done, or neither, and a lost ack takes no claim along."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.db import OperationalError, connection

from django_dbqueue import signals
from django_dbqueue.claims import claim as claims
from django_dbqueue.consumers.registry import Consumer
from django_dbqueue.lifecycle import claimer as claiming
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.delivery import Delivery
from django_dbqueue.worker.execution import ACK
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.settler import Settler
from tests.factories import QUEUE, as_claimed, held, waiting

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def settler() -> Settler:
    board = Board(10)
    return Settler(session_of("default"), Holding(board), board)


@pytest.fixture
def lost() -> Iterator[list[int]]:
    heard: list[int] = []

    def hear(*, message_id: int, **_: Any) -> None:
        heard.append(message_id)

    signals.lease_lost.connect(hear)
    yield heard
    signals.lease_lost.disconnect(hear)


def finish(settler: Settler, *messages: Message) -> None:
    handler = Consumer(QUEUE, print)
    deliveries = [
        Delivery(as_claimed(message), session_of("default"), handler, handler.resolved(), frozenset())
        for message in messages
    ]
    settler._holding.keep(*deliveries)
    settler._holding.offer(*deliveries)
    for delivery in deliveries:
        assert settler._holding.take() is delivery
        settler.add(delivery, ACK, 0.0)


@pytest.fixture(params=["a look", "behind a mark"])
def claimer(request: pytest.FixtureRequest) -> Claimer:
    """Who looks from the beginning, or goes on where it stood, and then sends all in one journey where it can."""
    claimer = Claimer(Message, DjangoSession("default"), QUEUE)
    if request.param == "behind a mark":
        waiting()
        assert len(claimer.take(1, lease=60, max_reads=5)) == 1
        claimer.low_water._again_at += 60
    return claimer


def claim(claimer: Claimer, settler: Settler) -> list[int]:
    return [each.claim.id for each in claimer.take(2, lease=60, max_reads=5, partner=settler)]


def status(*messages: Message) -> list[str]:
    return [Message.objects.get(pk=message.pk).status for message in messages]


def test_both_are_done(claimer: Claimer, settler: Settler) -> None:
    finished, next_one = held(), waiting()
    finish(settler, finished)
    assert settler.sendable().total() == 1
    assert claim(claimer, settler) == [next_one.pk]
    assert status(finished, next_one) == ["y", "run"]
    assert (len(settler), settler.sendable().total(), len(settler._holding)) == (0, 0, 0)


def test_an_ack_that_is_lost_is_reported_and_takes_neither_the_others_nor_the_claim_along(
    claimer: Claimer, settler: Settler, lost: list[int]
) -> None:
    finished, gone, next_one = held(), held(), waiting()
    finish(settler, finished, gone)
    Message.objects.filter(pk=gone.pk).drop_all("unwanted")
    assert claim(claimer, settler) == [next_one.pk]
    assert status(finished, gone, next_one) == ["y", "y", "run"]
    assert (lost, len(settler), len(settler._holding)) == ([gone.pk], 0, 0)


@pytest.mark.parametrize("is_committed", [True, False])
def test_neither_counts_as_done_before_the_commit(
    claimer: Claimer, settler: Settler, lost: list[int], monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    finished, next_one = held(), waiting()
    finish(settler, finished)
    real = DjangoSession.transaction

    def cut(session: DjangoSession, *, saves_a_journey: bool = False) -> Any:
        return _Cut(real(session, saves_a_journey=saves_a_journey), is_committed=is_committed)

    monkeypatch.setattr(DjangoSession, "transaction", cut)
    with pytest.raises(OperationalError):
        claim(claimer, settler)
    assert len(settler) == len(settler._holding) == 1
    assert status(finished, next_one) == (["y", "run"] if is_committed else ["run", "n"])
    monkeypatch.setattr(DjangoSession, "transaction", real)
    settler.flush()
    assert (status(finished), len(settler), len(settler._holding), lost) == (["y"], 0, 0, [])


def test_what_is_left_where_nothing_is_claimed_is_settled_by_itself(claimer: Claimer, settler: Settler) -> None:
    finished = held()
    finish(settler, finished)
    assert claim(claimer, settler) == []
    settler.flush()
    assert (status(finished), len(settler)) == (["y"], 0)


class _Clock:
    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


def test_a_claim_that_waited_with_its_acks_is_made_again_after_them(
    claimer: Claimer, settler: Settler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its leases, which begin when PostgreSQL gets what is sent, were over when it had them."""
    clock, alone = _Clock(), []
    finished, next_one = held(), waiting()
    finish(settler, finished)
    refused = settler.refused
    monkeypatch.setattr(settler, "refused", lambda: (alone.append(status(finished, next_one)), refused()))
    if claimer.low_water.priorities:
        monkeypatch.setattr(claiming, "time", clock)
        monkeypatch.setattr(claims, "time", clock)
        claimer.low_water._again_at = clock.now + 3_600

    def wait(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        clock.now += 7 if "finished_at" in sql else 0
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wait):
        assert claim(claimer, settler) == [next_one.pk]
    assert alone == ([["run", "n"]] if claimer.low_water.priorities and not claimer.low_water.saw_all else [])
    assert status(finished, next_one) == ["y", "run"]
    assert len(settler) == len(settler._holding) == 0


class _Cut:
    """A transaction whose end is not heard of, and that was committed, or wasn't."""

    def __init__(self, real: Any, *, is_committed: bool) -> None:
        self.real = real
        self.is_committed = is_committed

    def __enter__(self) -> None:
        self.real.__enter__()

    def __exit__(self, *_: Any) -> None:
        if self.is_committed:
            self.real.__exit__(None, None, None)
        else:
            error = OperationalError("gone")
            with suppress(OperationalError):
                self.real.__exit__(OperationalError, error, None)
        raise OperationalError("the server went away")
