"""Results of tasks that go into a claim's transaction together with their acks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from django_dbqueue.databases.statement import Kept
from django_dbqueue.lifecycle import result_rows
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.models import Message, Result
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker import settler as settler_module
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.execution import ACK
from django_dbqueue.worker.holding import Holding
from django_dbqueue.worker.settler import Settler
from tests.factories import QUEUE, held, waiting
from tests.worker.test_settling import begin

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def settler() -> Settler:
    return Settler(session_of("default"), Holding(Board(10)), Board(10))


@pytest.fixture
def no_transaction_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the settler settled by itself")

    monkeypatch.setattr(settler_module, "settle_claims", refuse)


def ended(settler: Settler, body: str = "7") -> Message:
    """Have a handler return what is kept."""
    message = held()
    settler.add(begin(settler, message), ACK._replace(result=Kept(body, "json", 60.0)), 0.0)
    return message


def claim(settler: Settler, *, again: bool = False) -> int:
    """Claim what waits, which is one message; ``again``: by who saw the queue's end before."""
    settler.flush_all_but_acks()
    claimer = Claimer(Message, session_of("default"), QUEUE)
    if again:
        waiting()
        claimer.take(10, lease=60.0, max_reads=5)
    waiting()
    return len(claimer.take(10, lease=60.0, max_reads=5, partner=settler))


def kept() -> set[int]:
    return set(Result.objects.values_list("pk", flat=True))


def done() -> set[int]:
    return set(Message.objects.done().values_list("pk", flat=True))


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_before(statement: str) -> Iterator[None]:
    def kill(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(statement):
            raise Killed
        return execute(sql, params, many, context)

    with connection.execute_wrapper(kill), pytest.raises(Killed):
        yield


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("with_claim", [True, False], ids=["with a claim", "by itself"])
def test_a_death_before_the_result_is_written_leaves_no_ack(settler: Settler, with_claim: bool, number: int) -> None:
    """Both are one commit (P17)."""
    ids = {ended(settler).pk for _ in range(number)}
    with killed_before("INSERT INTO django_dbqueue_result"):
        if with_claim:
            claim(settler)
        else:
            settler.flush()
    assert kept() == done() == set()
    settler.refused()
    assert kept() == done() == ids


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.usefixtures("no_transaction_of_its_own")
def test_results_are_committed_with_the_claim(settler: Settler, again: bool) -> None:
    ids = {ended(settler).pk, ended(settler).pk}
    assert claim(settler, again=again) == 1
    assert kept() == done() == ids
    assert len(settler) == 0


def test_where_one_claim_was_lost_the_others_keep_their_results(settler: Settler) -> None:
    good, lost = ended(settler), ended(settler)
    Message.objects.filter(pk=lost.pk).update(claim_token=1)
    assert claim(settler) == 1
    assert (kept(), done()) == ({good.pk}, {good.pk})
    assert len(settler) == 0


def test_after_a_lost_reply_a_result_is_kept_once(settler: Settler) -> None:
    message, session = ended(settler), session_of("default")
    prelude = settler.send()
    assert prelude is not None
    with session.transaction():  # commits, and the worker never hears of it
        session.run_prelude(prelude)
    other = ended(settler)
    assert claim(settler) == 1
    assert kept() == done() == {message.pk, other.pk}
    assert len(settler) == 0


def test_what_one_statement_does_not_take_waits_for_the_next(settler: Settler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_rows, "INSERT_SIZE", 10)
    ids = [ended(settler, body=f'"{"x" * length}"').pk for length in (20, 3, 3, 3)]
    for fitting in (1, 2, 1):
        assert settler.sendable().total() == fitting
        claim(settler)
        assert kept() == done() == set(ids[: len(ids) - len(settler)])
